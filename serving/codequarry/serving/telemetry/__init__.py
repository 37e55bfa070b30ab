"""Metrics, telemetry and the log of candidate pools."""
