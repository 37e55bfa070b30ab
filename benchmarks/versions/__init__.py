"""Versions over versions: deltas, branches, watches, and opening them."""
