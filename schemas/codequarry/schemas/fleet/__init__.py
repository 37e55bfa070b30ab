"""A fleet of bundles: its generations, the shares of replicas, and what a replica holds."""
