"""Meaning of a name at a place: which definition it is, by what its file says of it, and how sure that is."""
