"""Open bases that all delta versions over them share, and which versions this process has read to the last byte."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.serving.files.integrity import file_sha256, verify

Place = tuple[Path, str]
"""Folder of a version, and sha256 of its manifest."""
AfterBlock = Callable[[], None]
"""Called after every MiB of a file that is read; see `integrity.file_sha256`."""


class _OpenBase(Protocol):
    """An open version."""

    paths: BundlePaths
    manifest: Manifest

    def close(self) -> None:
        """Release its files."""


Base = TypeVar("Base", bound=_OpenBase)


class SharedBases(Generic[Base]):
    """Open bases by their folders: all delta versions over a base read one and the same. No base is read twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: set[Place] = set()
        """Versions whose every byte was compared."""
        self._damaged: set[Place] = set()
        """Versions in which, or in a version over which, damage was found since."""
        self._open: dict[tuple[Place, str], tuple[Base, list[Base]]] = {}

    def lease(
        self, place: Place, how: str, after_block: AfterBlock | None, open_base: Callable[[AfterBlock | None], Base]
    ) -> Base:
        """Return an open base.

        Args:
            place: The base.
            how: All that decides how it is opened.
            after_block: If given, the base is read, unless it was read before.
            open_base: Opens it where it is not open yet, and reads it first if it gets a function.

        Returns:
            The base; `release` gives it back.

        Raises:
            IntegrityError: The base is missing, damaged, or not the one that the delta was made for.
        """
        with self._lock:
            known = self._open.get((place, how))
            after_block = None if place in self._read else self.reading(place, after_block)
            if known is None:
                known = self._open[place, how] = (open_base(after_block), [])
            elif after_block is not None:
                read = partial(file_sha256, after_block=after_block)
                verify(known[0].paths, known[0].manifest, deep=True, sha256=read)
                self.trust(place)
            known[1].append(known[0])
            return known[0]

    def release(self, base: Base) -> None:
        """Give a base back; it is closed when no delta version uses it any more."""
        with self._lock:
            for key, (known, users) in list(self._open.items()):
                if known is base:
                    users.pop()
                    if not users:
                        del self._open[key]
                        base.close()

    def trust(self, place: Place) -> None:
        """Remember that every byte of a version was compared."""
        self._damaged.discard(place)
        self._read.add(place)

    def distrust(self, places: Iterable[Place]) -> None:
        """Let every byte of versions be compared again before anything is opened from them."""
        for place in places:
            self._damaged.add(place)
            self._read.discard(place)

    def reading(self, place: Place, after_block: AfterBlock | None) -> AfterBlock | None:
        """Return what to call after each block of a version that is opened; None when it need not be read."""
        return _at_once if after_block is None and place in self._damaged else after_block


def _at_once() -> None:
    """Read on without a pause."""
