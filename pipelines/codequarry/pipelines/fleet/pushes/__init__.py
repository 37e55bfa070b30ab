"""Pushes to the repositories of a fleet: signed webhooks of code hosts, and heads that are asked for in turn."""
