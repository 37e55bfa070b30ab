// cedar cedar cedar cedar cedar cedar cedar cedar cedar dune dune dune
// dune dune dune dune dune dune dune dune dune dune dune dune
// dune
