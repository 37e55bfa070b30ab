"""``codequarry watch`` and ``serve --watch``: a new version whenever files of the repositories changed."""
