"""``codequarry fleet``: many bundles in one place of object storage."""
