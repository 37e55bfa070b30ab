"""Command ``codequarry install``: the files by which agents get to know the server."""
