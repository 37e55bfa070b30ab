"""SCIP indexes: running indexers and reading what they write."""
