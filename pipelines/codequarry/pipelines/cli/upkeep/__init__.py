"""Commands that look after what is on this machine: store, optional tools, health."""
