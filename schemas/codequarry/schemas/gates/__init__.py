"""Suites and expectations that a version is checked by."""
