"""Staging a version: tables, manifest, catalog, and what may be removed."""
