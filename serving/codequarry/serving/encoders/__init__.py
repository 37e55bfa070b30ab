"""Encoders of queries and documents, and the client of model servers."""
