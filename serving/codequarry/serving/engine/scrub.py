"""Background scrub of the served version: slow, repeated reads find bytes that changed after it was opened.

Plain reads see what any program wrote; a damaged disk shows only in pages that are not cached.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

from codequarry.schemas.bundle.manifest import FileEntry
from codequarry.serving.version.open import Bundle

PASS_S = 600.0
"""A pass begins so long after the one before began, at the earliest."""
_BLOCK = 1 << 20
_MOST = 64 << 20
"""Bytes of one step at most: CURRENT is read between steps."""

Damage = dict[str, str]
"""Path of a file -> what was found in its place."""


class Scrub:
    """Scrub that reads a version file by file in steps, within its rate. Used by one thread."""

    def __init__(self, mb_per_s: float) -> None:
        """Limit the rate.

        Args:
            mb_per_s: Rate; 0 reads nothing.
        """
        self._rate = mb_per_s * 1e6
        self._bundle: Bundle | None = None
        self._files: Iterator[tuple[Bundle, FileEntry]] = iter(())
        self._reading: Iterator[Damage | int] = iter(())
        self._began = self._stepped = 0.0

    def step(self, bundle: Bundle) -> Damage:
        """Read on in the version.

        Args:
            bundle: The served version.

        Returns:
            Damage that was found in this step.

        Raises:
            OSError: A file cannot be read now; the next step begins with the next one.
        """
        if not self._rate:
            return {}
        now = time.monotonic()
        if bundle is not self._bundle:
            # A new version was compared byte by byte just before.
            self._bundle, self._files, self._reading, self._began, self._stepped = bundle, iter(()), iter(()), now, now
        allowed = int(min(_MOST, (now - self._stepped) * self._rate))
        if allowed < _BLOCK:
            return {}  # saved for the next step
        self._stepped = now
        damage: Damage = {}
        while allowed > 0:
            found = next(self._reading, None)
            if isinstance(found, int):
                allowed -= found
            elif found is not None:
                damage |= found
            elif (entry := next(self._files, None)) is not None:
                self._reading = read_again(*entry)
            elif now - self._began < PASS_S:
                break
            else:
                files = ((layer, entry) for layer in bundle.layers for entry in layer.manifest.files)
                self._began, self._files = now, files
        return damage


def read_again(bundle: Bundle, entry: FileEntry) -> Iterator[Damage | int]:
    """Read a file in blocks.

    Args:
        bundle: The served version.
        entry: Manifest entry of the file.

    Yields:
        The number of bytes of each block, then the damage if there is any.

    Raises:
        OSError: The file cannot be read.
    """
    path, digest, size = bundle.paths.path / entry.path, hashlib.sha256(), 0
    try:
        with path.open("rb") as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
                size += len(block)
                yield len(block)
    except FileNotFoundError:
        yield {entry.path: "missing"}
        return
    if size != entry.size_bytes:
        yield {entry.path: f"{size} bytes, expected {entry.size_bytes}"}
    elif digest.hexdigest() != entry.sha256:
        yield {entry.path: f"sha256 {digest.hexdigest()[:12]}…, expected {entry.sha256[:12]}…"}
