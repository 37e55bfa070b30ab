"""Definitions in a syntax tree, their names and clauses."""
