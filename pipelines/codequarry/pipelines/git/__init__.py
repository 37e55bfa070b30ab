"""Running git as a bounded child process."""
