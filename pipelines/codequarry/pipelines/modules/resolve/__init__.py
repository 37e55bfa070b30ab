"""Resolving imports to files, by language."""
