"""Training the shipped static encoder from packages of public registries."""
