"""Ranking of candidates by evidence from files, and reranking."""
