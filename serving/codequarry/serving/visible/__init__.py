"""A version as a caller sees it who may not see every repository: as if the others were not in it."""
