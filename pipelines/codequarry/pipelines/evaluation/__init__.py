"""Measuring retrieval on questions that are mined or given."""
