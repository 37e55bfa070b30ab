"""Retrieval channels and the fusion of their rankings."""
