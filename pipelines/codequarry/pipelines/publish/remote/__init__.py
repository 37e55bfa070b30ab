"""Versions in object storage: put there, taken from there, followed and removed."""
