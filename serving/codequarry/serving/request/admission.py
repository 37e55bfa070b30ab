"""Calls and their admission: a limit on concurrent calls, a short fair queue, a quick BUSY, and lanes for computing.

Fair means max-min: a free place goes to the waiting client that holds the fewest. A full queue makes room for a client
with fewer calls in it: the latest call of the client with most is sent away. Clients that share a server leave at least
a quarter of the places to others; otherwise slow calls of one would lock all others out.

Calls that compute take turns in lanes, which finishes each sooner than all at once. More threads than cores answer no
call sooner, and they take cores and the interpreter from the event loop, which must answer BUSY and health. A call that
computes for long, or waits for a server, does not block others: after `PATIENCE_S` its lane counts as free, and it goes
on beside them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codequarry.schemas.errors import BusyError
from codequarry.schemas.resources import available_cores
from codequarry.serving.request.repository_scope import EVERYTHING, RepositoryScope

if TYPE_CHECKING:
    from codequarry.serving.request.trace import Trace

WAIT_S = 0.01
PATIENCE_S = 0.1
_MOST = 4
"""A search holds the interpreter for a quarter of its time, so more at once would wait for it."""


@dataclass(slots=True, eq=False)
class Call:
    """State of one call. Shared between the event loop and the worker thread that answers."""

    client: str = ""
    """Client, by bearer token or else by address; "" for a single caller, which shares the server with no other."""
    place: Place | None = None
    """Its place among the running calls, if the transport took one; the transport also gives it back."""
    trace: Trace | None = None
    """Measurements of the request, once a tool works on it."""
    scope: RepositoryScope = EVERYTHING
    """Repositories that the client may see."""
    abandoned: bool = False
    """The client has stopped waiting: work stops at its next deadline check."""

    def is_abandoned(self) -> bool:
        """Tell whether the client has stopped waiting."""
        return self.abandoned


_CALL: ContextVar[Call | None] = ContextVar("codequarry_call", default=None)


def current_call() -> Call:
    """Return the call of this context; outside of any transport, one that is never abandoned."""
    return _CALL.get() or Call()


def begin_call(call: Call) -> None:
    """Make this the call of the context and of all tasks and threads started from it."""
    _CALL.set(call)


def token_client(client_id: str) -> str:
    """Return the client of a bearer token.

    Clients are told apart by tokens, because many may share an address, and one may have many.
    """
    return f"token {client_id}"


class Place:
    """Place among the running calls, given back once."""

    def __init__(self, gate: Gate, client: str) -> None:
        self._gate, self._client = gate, client
        self._started = self._over = False

    def start(self) -> bool:
        """Begin to work, in any thread; False when the place was withdrawn meanwhile."""
        with self._gate.lock:
            self._started = not self._over
            return self._started

    def end(self) -> None:
        """Give the place back after the work."""
        with self._gate.lock:
            over, self._over = self._over, True
        if not over:
            self._gate.leave(self._client)

    def withdraw(self) -> None:
        """Give the place back, unless a thread works on it and will do so itself."""
        with self._gate.lock:
            started = self._started
        if not started:
            self.end()


@dataclass(eq=False)
class _Waiting:
    client: str
    admitted: Future[bool] = field(default_factory=Future)


class Gate:
    """Counter of running calls; threads and coroutines share the same places."""

    def __init__(self, places: int) -> None:
        self.lock = threading.Lock()
        self.places = places
        self.most = places - places // 4
        """Most places of a client that shares the server with others."""
        self._running: Counter[str] = Counter()
        self._waiting: list[_Waiting] = []

    @contextmanager
    def place(self, client: str = "") -> Iterator[None]:
        """Hold a place for the block.

        Args:
            client: Caller; "" for a single caller.

        Yields:
            Nothing.

        Raises:
            BusyError: No place came free in time.
        """
        waiting = self._enter(client)
        if waiting is not None:
            try:
                admitted = waiting.admitted.result(timeout=WAIT_S)
            except TimeoutError:
                admitted = self._give_up(waiting)
            if not admitted:
                raise busy()
        try:
            yield
        finally:
            self.leave(client)

    async def enter(self, client: str = "") -> Place:
        """Take a place without blocking the event loop.

        Args:
            client: Caller; "" for a single caller.

        Returns:
            The place.

        Raises:
            BusyError: No place came free in time.
        """
        waiting = self._enter(client)
        if waiting is not None:
            try:
                await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(waiting.admitted)), WAIT_S)
            except TimeoutError:
                pass
            except BaseException:
                if self._give_up(waiting):
                    self.leave(client)
                raise
            if not self._give_up(waiting):
                raise busy()
        return Place(self, client)

    def leave(self, client: str) -> None:
        """Give a place back, and hand it to the waiting client that holds the fewest."""
        with self.lock:
            self._running[client] -= 1
            if not self._running[client]:
                del self._running[client]
            candidates = [one for one in self._waiting if self._may_run(one.client)]
            if not candidates:
                return
            chosen = min(candidates, key=lambda one: self._running[one.client])
            self._waiting.remove(chosen)
            self._running[chosen.client] += 1
            chosen.admitted.set_result(True)

    @property
    def running(self) -> int:
        """Number of calls that hold a place."""
        return self._running.total()

    def _enter(self, client: str) -> _Waiting | None:
        """Take a place, or a position in the queue.

        Args:
            client: Caller; "" for a single caller.

        Returns:
            The position in the queue; None when a place was taken.

        Raises:
            BusyError: All places are taken and the queue is full.
        """
        with self.lock:
            if self._may_run(client):
                self._running[client] += 1
                return None
            if len(self._waiting) >= self.places and not self._make_room(client):
                raise busy()
            waiting = _Waiting(client)
            self._waiting.append(waiting)
            return waiting

    def _may_run(self, client: str) -> bool:
        most = self.most if client else self.places
        return self._running.total() < self.places and self._running[client] < most

    def _make_room(self, client: str) -> bool:
        """Send away the latest waiting call of the client with the most, if it has more than this client would have."""
        load = Counter(one.client for one in self._waiting)
        greedy = max(load, key=lambda one: (load[one], one))
        if load[greedy] <= load[client] + 1:
            return False
        latest = next(one for one in reversed(self._waiting) if one.client == greedy)
        self._waiting.remove(latest)
        latest.admitted.set_result(False)
        return True

    def _give_up(self, waiting: _Waiting) -> bool:
        """Stop waiting; return True when the place was given at the last moment."""
        with self.lock:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
                return False
        return waiting.admitted.result()


def busy() -> BusyError:
    """Return the error of a call that finds no place."""
    return BusyError("every worker is taken", suggestion="wait a second and call again with the same arguments")


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
