"""Settings: one module for each group of sections, and their loading."""
