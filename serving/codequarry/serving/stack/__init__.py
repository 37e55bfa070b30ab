"""A delta version and its base, read as if they were one version."""
