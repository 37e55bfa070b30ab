"""Share of questions for which the right code is found: annotated, mined and people's questions."""
