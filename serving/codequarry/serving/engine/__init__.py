"""Engine of the service: one served version, its follower, health and repair."""
