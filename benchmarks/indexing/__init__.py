"""A first index and its stages: CPU, time, memory and bytes."""
