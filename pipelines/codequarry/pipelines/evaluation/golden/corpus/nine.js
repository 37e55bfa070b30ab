// amber amber amber amber basalt basalt basalt basalt basalt basalt basalt basalt
// basalt dune dune dune dune dune dune dune dune dune dune dune
// dune dune dune dune dune dune dune dune dune dune dune dune
// dune dune dune dune dune dune dune dune dune dune dune dune
// dune
