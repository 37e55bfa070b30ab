"""L1: the read-only service and the command line. No Dagster, no torch, no subprocess, no write."""
