"""Concurrency limit for computing: running calls take turns, which finishes each sooner than all at once.

More threads than cores answer no call sooner, and they take cores and the interpreter from the event loop, which must
answer BUSY and health. A call that computes for long, or waits for a server, does not block others: after `PATIENCE_S`
its lane counts as free, and it goes on beside them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from codequarry.schemas.resources import available_cores

PATIENCE_S = 0.1
_MOST = 4
"""A search holds the interpreter for a quarter of its time, so more at once would wait for it."""


class Lanes:
    """Limit on computing calls, shared by all worker threads."""

    def __init__(self, count: int | None = None) -> None:
        """Set the limit.

        Args:
            count: Number of lanes. When None, the number of cores for this process, up to four.
        """
        self._count = count or min(_MOST, available_cores())
        self._changed = threading.Condition()
        self._since: dict[object, float] = {}

    @contextmanager
    def lane(self) -> Iterator[None]:
        """Wait for a free lane, and hold it for the block."""
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
        """Return the longest time until a lane counts as free; 0 when one is free."""
        now = time.monotonic()
        left = sorted(since + PATIENCE_S - now for since in self._since.values() if now - since < PATIENCE_S)
        return left[-self._count] if len(left) >= self._count else 0.0
