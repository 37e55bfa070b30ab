"""Chunks of files: the stage, its workers and rows."""
