"""The page at the server's address: search, read, look names up, and see what is indexed, in a browser."""
