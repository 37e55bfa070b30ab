"""Repositories that moved and wait for a build, gathered from all pushes of a moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

QUIET_S = 1.0
"""Seconds without a push after which those before are built: a release pushes branch and tags one after the other."""
LONGEST_S = 10.0
"""Seconds after which a push is built however many follow it."""


class MovedRepositories:
    """Names of repositories, put in by threads that hear of pushes, and taken by the one that builds."""

    def __init__(self, quiet_s: float = QUIET_S, longest_s: float = LONGEST_S) -> None:
        """Begin with none.

        Args:
            quiet_s: Seconds to wait for further pushes.
            longest_s: Seconds that a push waits at most.
        """
        self._quiet_s, self._longest_s = quiet_s, longest_s
        self._changed = threading.Condition()
        self._names: set[str] = set()
        self._first = self._last = 0.0

    @property
    def waiting(self) -> int:
        """Repositories that wait."""
        return len(self._names)

    def add(self, names: Iterable[str]) -> None:
        """Put names in; those that wait already are one."""
        added, now = set(names), time.monotonic()
        if not added:
            return
        with self._changed:
            self._first = self._first if self._names else now
            self._last = now
            self._names |= added
            self._changed.notify()

    def take(self, timeout_s: float) -> frozenset[str]:
        """Wait for pushes, and take all of a moment together.

        Args:
            timeout_s: Seconds to wait for the first one.

        Returns:
            Their names; none when none came in time.
        """
        ends = time.monotonic() + timeout_s
        with self._changed:
            while True:
                now = time.monotonic()
                due = min(self._last + self._quiet_s, self._first + self._longest_s) if self._names else ends
                if due <= now:
                    taken, self._names = frozenset(self._names), set()
                    return taken
                self._changed.wait(due - now)
