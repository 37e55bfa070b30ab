"""Readers of a version's catalog: chunks, files, symbols and texts."""
