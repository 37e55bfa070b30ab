"""HTTP server, authentication and its limits."""
