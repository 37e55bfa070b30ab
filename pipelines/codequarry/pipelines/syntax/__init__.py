"""Parsing sources with tree-sitter and cutting them into chunks."""
