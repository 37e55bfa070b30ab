"""Views and columns of the DuckDB catalog."""
