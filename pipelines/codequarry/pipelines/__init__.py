"""L1: plain functions from repository to bundle. No Dagster, no Great Expectations."""
