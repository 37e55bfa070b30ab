"""Processes beside a server: the first index, the watch, and the follower of a fleet, each of which ends with it."""
