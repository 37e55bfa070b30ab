"""Many bundles behind one server: a call is asked of each that matters, and the answers are merged."""
