"""Disk space: how much the next version needs, and how much is free."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import CodequarryError
from codequarry.serving.files.integrity import read_manifest

RESERVE_BYTES = 64 << 20
"""Size of the smallest version (its encoder is a third of it), kept as a reserve."""
_GROWTH = 1.25


@dataclass(frozen=True, slots=True)
class Space:
    """Space on the file system of a path, in bytes."""

    path: Path
    free: int
    needed: int

    @property
    def enough(self) -> bool:
        return self.free >= self.needed


def room_for_version(root: BundleRoot) -> Space:
    """Estimate the space for one more version.

    A whole version is written when settings or tools have changed, or when links cannot be made. The estimate is 1.25
    times the current version, plus a reserve; without a version it is the reserve alone.
    """
    return Space(root.path, free_bytes(root.path), int(_current_bytes(root) * _GROWTH) + RESERVE_BYTES)


def free_bytes(path: Path) -> int:
    """Return the bytes that an unprivileged writer may still use below a path, which need not exist yet."""
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    found = os.statvfs(existing)
    return found.f_bavail * found.f_frsize


def _current_bytes(root: BundleRoot) -> int:
    try:
        manifest = read_manifest(root.version(root.read_current().version))
    except CodequarryError:
        return 0
    return sum(entry.size_bytes for entry in manifest.files)
