"""Lanes: of the calls that run, so many compute at a time, each of them sooner done than all of them side by side.

More threads than cores answer no call sooner, and each of them takes cores and the interpreter from the event loop,
which has BUSY and health to tell. A call that computes for long, or waits for a server, keeps nobody waiting: after
`PATIENCE_S` its lane counts as free, and it goes on beside the others.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 0.1
_MOST = 4
"""A search holds the interpreter for a quarter of its time: more at once would wait for that."""


class Lanes:
    """Shared by all worker threads."""

    def __init__(self, count: int | None = None) -> None:
        """count: as many as there are cores for this process, up to four, when None."""
        self._count = count or min(_MOST, len(os.sched_getaffinity(0)))
        self._changed = threading.Condition()
        self._since: dict[object, float] = {}

    @contextmanager
    def lane(self) -> Iterator[None]:
        """Compute for the block, once there is a lane."""
        taken = object()
        with self._changed:
            while (wait := self._wait_s()) > 0:
                self._changed.wait(wait)
            self._since[taken] = time.monotonic()
        try:
            yield
        finally:
            with self._changed:
                del self._since[taken]
                self._changed.notify()

    def _wait_s(self) -> float:
        """How long until a lane counts as free at the latest; 0 when one is."""
        now = time.monotonic()
        left = sorted(since + PATIENCE_S - now for since in self._since.values() if now - since < PATIENCE_S)
        return left[-self._count] if len(left) >= self._count else 0.0
