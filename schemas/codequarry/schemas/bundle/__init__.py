"""Files of a version: layout, manifest, tables."""
