// dune dune dune dune dune dune dune dune dune dune dune dune
// dune dune dune dune cedar cedar cedar cedar cedar cedar cedar cedar
// cedar
