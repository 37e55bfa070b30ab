"""Tool ``relations``: who calls what, what implements what, what imports what, and what a change reaches."""
