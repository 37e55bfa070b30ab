"""Finding and redacting secrets."""
