"""Pictures of the command line and of the page for docs/, made anew by ``make pictures``."""
