"""How much room the next version needs, and how much there is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.integrity import read_manifest
from codequarry.schemas.layout import BundleRoot

RESERVE_BYTES = 64 << 20
"""What the smallest version takes (its encoder is a third of it), and what nothing should eat into."""
_GROWTH = 1.25


@dataclass(frozen=True, slots=True)
class Space:
    """Room on the file system of a path, in bytes."""

    path: Path
    free: int
    needed: int

    @property
    def enough(self) -> bool:
        return self.free >= self.needed


def room_for_version(root: BundleRoot) -> Space:
    """Room for one more version: all of one is written when settings or tools changed, or links cannot be made.

    The estimate is the current version and a quarter, and a reserve; without a version the reserve alone, since
    nothing is known.
    """
    return Space(root.path, free_bytes(root.path), int(_current_bytes(root) * _GROWTH) + RESERVE_BYTES)


def free_bytes(path: Path) -> int:
    """Bytes an unprivileged writer may still take below a path, which need not exist yet."""
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    found = os.statvfs(existing)
    return found.f_bavail * found.f_frsize


def _current_bytes(root: BundleRoot) -> int:
    try:
        manifest = read_manifest(root.version(root.read_current().version))
    except CodequarryError:
        return 0
    return sum(entry.size_bytes for entry in manifest.files)
