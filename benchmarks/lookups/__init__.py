"""Symbols: definitions, references, relations and affected tests."""
