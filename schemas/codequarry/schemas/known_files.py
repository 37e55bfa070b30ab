"""Digests of files that this process has read: a build links, lists and checks the same ones several times."""

from __future__ import annotations

import os
from pathlib import Path

from codequarry.schemas.integrity import file_sha256

_MOST = 50_000
_Identity = tuple[int, int, int, int, int]
_known: dict[_Identity, str] = {}


def known_sha256(path: Path) -> str:
    """sha256 hex of a file, read unless this process knows it.

    A file is known by device, inode, size, and the times of its last change, of which no program can set the second.
    """
    identity = _identity(path)
    if (found := _known.get(identity)) is None:
        found = file_sha256(path)
        _keep(identity, found)
    return found


def note_sha256(path: Path, sha256: str) -> None:
    """Note the digest of a file that was read before it was linked or moved, which changes one of its times."""
    _keep(_identity(path), sha256)


def _keep(identity: _Identity, sha256: str) -> None:
    if len(_known) >= _MOST:
        _known.clear()
    _known[identity] = sha256


def _identity(path: Path) -> _Identity:
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
