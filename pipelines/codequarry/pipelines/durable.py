"""What has to survive power loss: files and folders are synced, single lines replaced whole."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from codequarry.schemas.layout import BundleRoot, Current

ASIDE = ".new"
"""End of the name a line is written under before it takes its place."""


def sync(path: Path) -> None:
    """Force a file's bytes, or a folder's names, to the disk. Raises OSError: the disk refuses."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_line(target: Path, line: Current) -> None:
    """Put a line in place of a file: at any moment, power loss included, it holds the old or the new content."""
    temporary = target.with_name(f".{target.name.lstrip('.')}{ASIDE}")
    try:
        _write(temporary, line.line().encode())
        os.replace(temporary, target)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    sync(target.parent)


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        if os.write(descriptor, data) != len(data):
            raise OSError(f"{path} took not all of {len(data)} bytes")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_way_to(root: BundleRoot) -> None:
    """Sync the folders above a new bundle root, up to the mount: they may be as new as it is."""
    device = root.path.stat().st_dev
    for folder in root.path.parents:
        if folder.stat().st_dev != device or not os.access(folder, os.R_OK):
            return
        sync(folder)
