"""Measures of an engine's answers that gates and evaluation share."""
