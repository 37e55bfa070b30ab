"""What has to survive power loss: files and folders are synced, single lines replaced whole."""

from __future__ import annotations

import os
from pathlib import Path

from codequarry.schemas.layout import BundleRoot, Current


def sync(path: Path) -> None:
    """Force a file's bytes, or a folder's names, to the disk. Raises OSError: the disk refuses."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_line(target: Path, line: Current) -> None:
    """Put a line in place of a file: at any moment, power loss included, it holds the old or the new content."""
    temporary = target.with_name(f".{target.name.lstrip('.')}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        data = line.line().encode()
        if os.write(descriptor, data) != len(data):
            raise OSError(f"{temporary} took not all of {len(data)} bytes")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, target)
    sync(target.parent)


def sync_way_to(root: BundleRoot) -> None:
    """Sync the folders above a new bundle root, up to the mount: they may be as new as it is."""
    device = root.path.stat().st_dev
    for folder in root.path.parents:
        if folder.stat().st_dev != device or not os.access(folder, os.R_OK):
            return
        sync(folder)
