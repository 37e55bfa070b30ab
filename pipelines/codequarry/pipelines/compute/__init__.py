"""Units of work, done in this process or in several."""
