"""How often a process looks for cyclic garbage."""

from __future__ import annotations

import gc

_THRESHOLDS = 20_000, 20, 20


def collect_seldom() -> None:
    """Look for cyclic garbage after 20,000 new objects instead of 700.

    What imports and tables of rows make is kept or freed by its references, so that looking finds next to nothing: it
    took 5 % of a commit's CPU time and 8 % of a first index's. Garbage that does arise waits for some megabytes.
    """
    gc.set_threshold(*_THRESHOLDS)
