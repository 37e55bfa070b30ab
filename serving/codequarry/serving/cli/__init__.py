"""Commands that read published versions."""
