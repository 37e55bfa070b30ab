"""Delta versions: the files that differ from a complete version, over it."""
