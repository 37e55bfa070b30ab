"""Late-interaction channel (WARP)."""
