"""Training the shipped static encoder from source packages of public registries; see ``train``."""
