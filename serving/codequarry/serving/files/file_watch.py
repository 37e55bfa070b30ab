"""Watch over the files of an open version: inode, size and time are compared with those at its opening.

Reading a mapped page beyond the end of a shortened file ends the process with SIGBUS, and no handler can prevent that.
So requests check the sizes first. A file that is shortened between check and access is not noticed.
"""

from __future__ import annotations

import math
import os
import time
from typing import Self

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.errors import IntegrityError

FRESH_S = 0.01
"""Largest age of a check in seconds, so that concurrent requests share one."""

Identity = tuple[int, int, int, int]
"""Device, inode, size in bytes, time of the last change of the contents in ns."""


def is_read_by_requests(name: str) -> bool:
    """Tell whether requests read a file of a version; of the tables those of vectors, and of chunks for their texts."""
    return not name.startswith("tables/") or name.startswith(("tables/embeddings", "tables/chunks."))


def identity_of(status: os.stat_result) -> Identity:
    """Return the values by which a changed file is recognized."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class FileWatch:
    """Watch over the files that requests read, by the folder's descriptor, so that moving the folder is harmless."""

    def __init__(self, version: str, folder: int, known: dict[str, Identity]) -> None:
        self._version = version
        self._folder = folder
        self._known = known
        self._suspects: set[str] = set()
        self._shortened = ""
        self._looked = time.monotonic()

    @classmethod
    def open(cls, paths: BundlePaths, manifest: Manifest) -> Self:
        """Remember the files as they are, before they are verified and mapped.

        Args:
            paths: Paths of the version.
            manifest: Manifest of the version.

        Returns:
            The watch.

        Raises:
            OSError: The folder or a file cannot be read.
        """
        folder = os.open(paths.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        watch = cls(manifest.version, folder, {})
        try:
            for entry in manifest.files:
                if is_read_by_requests(entry.path):
                    watch._known[entry.path] = identity_of(watch._status(entry.path))
        except FileNotFoundError:
            pass  # who verifies the version says which are missing
        except BaseException:
            watch.close()
            raise
        return watch

    def require_whole(self) -> None:
        """Raise IntegrityError when a file was shortened or lengthened, so that mapped pages of it may be gone."""
        if not self._shortened:
            now = time.monotonic()
            if now - self._looked < FRESH_S:
                return
            self._looked = now
            self._look()
        if self._shortened:
            raise IntegrityError(
                f"version {self._version} was changed while it was served: {self._shortened}",
                suggestion="call again: another version may be served by then; `codequarry verify` names the files",
            )

    def look_now(self) -> None:
        """Check like `require_whole`, even shortly after the last check."""
        self._looked = -math.inf
        self.require_whole()

    def take_suspects(self) -> list[str]:
        """Return files that were replaced or written to since the last call; their contents may still be the same."""
        suspects, self._suspects = self._suspects, set()
        return sorted(suspects)

    def close(self) -> None:
        """Close the descriptor."""
        folder, self._folder = self._folder, -1
        if folder >= 0:
            os.close(folder)

    def _look(self) -> None:
        for name, known in list(self._known.items()):
            try:
                identity = identity_of(self._status(name))
            except OSError:
                continue  # what is mapped stays when its name goes
            if identity == known:
                continue
            if identity[:2] == known[:2] and identity[2] != known[2]:
                self._shortened = f"{name}: {identity[2]} bytes, expected {known[2]}"
                return
            # A new inode leaves the mapped one unchanged; a new time may come from `touch`.
            self._known[name] = identity
            self._suspects.add(name)

    def _status(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self._folder, follow_symlinks=False)
