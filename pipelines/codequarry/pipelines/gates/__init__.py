"""Gates that a staged version has to pass before it is published."""
