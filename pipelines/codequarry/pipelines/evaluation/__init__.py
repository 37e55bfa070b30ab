"""Measuring retrieval: questions with known answers, mined or given, and what an engine's answers to them are worth."""
