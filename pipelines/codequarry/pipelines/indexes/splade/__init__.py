"""Building the SPLADE index."""
