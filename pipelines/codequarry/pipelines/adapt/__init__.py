"""Adapting the shipped encoder to the indexed repositories."""
