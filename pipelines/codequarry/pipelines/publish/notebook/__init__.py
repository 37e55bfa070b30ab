"""The operator's notebook, executed over the published version and kept as a page beside its verdict."""
