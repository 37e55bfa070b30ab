"""Text search: the files that may match, and the matches in them."""
