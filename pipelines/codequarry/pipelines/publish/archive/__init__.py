"""Versions as archive files: writing, reading, importing."""
