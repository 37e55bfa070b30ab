"""Programs for maintainers, run from a checkout: no part of the wheel."""
