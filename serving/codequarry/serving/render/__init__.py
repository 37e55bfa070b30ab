"""Answers as the text that a model reads: places once, 1-based, with the code that matters, and nothing else."""
