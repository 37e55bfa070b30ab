"""L0: the contracts every other layer shares. Imports nothing of codequarry above it."""
