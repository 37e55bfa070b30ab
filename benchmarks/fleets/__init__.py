"""Fleets of bundles: plans, pushes, routers and replicas."""
