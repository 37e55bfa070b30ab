"""Facts about files that ranking and the catalog use."""
