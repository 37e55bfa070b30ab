"""The serving process: start, searches, text search and many clients."""
