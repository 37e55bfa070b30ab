"""Building the WARP index of late interaction."""
