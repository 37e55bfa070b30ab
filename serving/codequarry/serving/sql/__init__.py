"""Interactive SQL over a version: the session, what it may reach, and the tables of published versions."""
