"""L2: the only importer of Dagster: assets, checks, automation."""
