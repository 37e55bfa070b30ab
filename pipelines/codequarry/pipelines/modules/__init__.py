"""The modules of a repository and the imports between them."""
