"""Admission: so many calls at once, a short wait, then a quick BUSY."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from codequarry.schemas.errors import BusyError

WAIT_S = 0.05
_POLL_S = 0.005


class Gate:
    """Counts running calls; threads and coroutines share the same places."""

    def __init__(self, places: int) -> None:
        self._places = threading.Semaphore(places)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place for the block. Raises BusyError: none came free in time."""
        if not self._places.acquire(timeout=WAIT_S):
            raise _busy()
        try:
            yield
        finally:
            self._places.release()

    @asynccontextmanager
    async def place_async(self) -> AsyncIterator[None]:
        """As `place`, without holding up the event loop."""
        import anyio

        give_up = time.monotonic() + WAIT_S
        while not self._places.acquire(blocking=False):
            if time.monotonic() >= give_up:
                raise _busy()
            await anyio.sleep(_POLL_S)
        try:
            yield
        finally:
            self._places.release()


def _busy() -> BusyError:
    return BusyError("every worker is taken", suggestion="wait a second and call again with the same arguments")
