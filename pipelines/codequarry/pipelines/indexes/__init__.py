"""Building the indexes of a version."""
