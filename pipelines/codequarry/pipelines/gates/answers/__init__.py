"""The gate that asks a staged version and compares its answers."""
