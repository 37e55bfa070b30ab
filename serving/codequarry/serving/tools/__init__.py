"""Tools of the service, one module each."""
