"""Embedding chunks with the configured encoder."""
