"""Served version: requests share it, and the next one takes its place between two requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from codequarry.schemas.errors import UnavailableError
from codequarry.serving.version.open import Bundle


@dataclass(eq=False)
class _CountedVersion:
    bundle: Bundle
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    requests: int = 0


class Served:
    """Reference count of each open version; a replaced version is closed when its last request has ended."""

    def __init__(self, bundle: Bundle | None, refusal: Callable[[], UnavailableError] | None = None) -> None:
        """Serve a version.

        Args:
            bundle: The version; None when there is none yet.
            refusal: Returns the error of every request until there is one.
        """
        self._lock = threading.Lock()
        self._opened: _CountedVersion | None = None if bundle is None else _CountedVersion(bundle)
        self._refusal = refusal
        self._leaving: list[_CountedVersion] = []
        self._before: tuple[str, np.ndarray] | None = None
        self.close_idle: Callable[[Bundle], None] = Bundle.close
        """Called with a version that is no longer used; closing takes time that no request should pay for."""

    @contextmanager
    def lease(self) -> Iterator[Bundle]:
        """Keep the version open for one request.

        Yields:
            The version.

        Raises:
            UnavailableError: No version is served now.
        """
        with self._lock:
            opened, refusal = self._opened, self._refusal
            if opened is not None:
                opened.requests += 1
        if opened is None:
            raise refusal() if refusal is not None else _stopping_error()
        try:
            yield opened.bundle
        finally:
            with self._lock:
                opened.requests -= 1
            self._close_left()

    @property
    def bundle(self) -> Bundle:
        """Version that is served now, for inspection.

        Raises:
            UnavailableError: No version is served now.
        """
        opened, refusal = self._opened, self._refusal
        if opened is None:
            raise refusal() if refusal is not None else _stopping_error()
        return opened.bundle

    @property
    def since(self) -> datetime | None:
        """Time at which the version was put into service; None when there is none."""
        opened = self._opened
        return opened and opened.since

    @property
    def requests(self) -> int:
        """Number of requests running now, on every open version."""
        with self._lock:
            return sum(one.requests for one in (*self._leaving, *([self._opened] if self._opened else [])))

    @property
    def leaving(self) -> int:
        """Number of replaced versions that requests still use."""
        return len(self._leaving)

    def version_before(self, chunk_id: int) -> str:
        """Return the version served before this one, when it had the chunk; "" otherwise."""
        if self._before is None:
            return ""
        version, ids = self._before
        at = int(np.searchsorted(ids, chunk_id))
        return version if at < len(ids) and ids[at] == chunk_id else ""

    def swap(self, bundle: Bundle) -> None:
        """Serve this version from the next request on."""
        self._replace(_CountedVersion(bundle), None)

    def refuse(self, error: UnavailableError) -> None:
        """Serve nothing until the next `swap`: every request from now on fails with this error."""
        self._replace(None, lambda: error)

    def close(self) -> None:
        """Stop serving; versions close when their last request has ended."""
        self._replace(None, None)

    def _replace(self, opened: _CountedVersion | None, refusal: Callable[[], UnavailableError] | None) -> None:
        with self._lock:
            if self._opened is not None:
                self._leaving.append(self._opened)
                left = self._opened.bundle
                # Keep only the ids: the arrays of a closed version would stay in memory.
                self._before = (left.manifest.version, left.directory.chunk_ids)
            self._opened, self._refusal = opened, refusal
        self._close_left()

    def _close_left(self) -> None:
        if not self._leaving:
            return
        with self._lock:
            idle = [one for one in self._leaving if not one.requests]
            self._leaving = [one for one in self._leaving if one.requests]
        for one in idle:
            self.close_idle(one.bundle)


def _stopping_error() -> UnavailableError:
    return UnavailableError("the server is stopping", suggestion="call again when it has restarted")
