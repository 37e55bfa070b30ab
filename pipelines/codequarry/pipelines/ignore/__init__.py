"""Ignore files: patterns and rules, matched in linear time."""
