"""The store: content-addressed results of every stage."""
