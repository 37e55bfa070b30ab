"""How often the right code is found: annotated, mined and people's questions."""
