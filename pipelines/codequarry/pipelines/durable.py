"""What has to survive power loss: files and folders are synced, lines and single files replaced whole."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


@contextmanager
def new_file(target: Path) -> Iterator[int]:
    """A descriptor to write a file with, which takes its name, whole and synced, when the block ends without an error.

    After one nothing of it is left. Writers do not meet: each has a file of its own until the rename.

    Raises OSError: the disk refuses.
    """
    aside = target.with_name(f".codequarry-{secrets.token_hex(4)}{ASIDE}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            yield descriptor
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(aside, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(aside)
        raise
    try:
        sync(target.parent)
    except OSError:
        with suppress(OSError):
            os.unlink(target)
        raise


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte, in as many calls as it takes. Raises OSError: the disk refuses, or takes nothing."""
    rest = memoryview(data)
    while rest:
        taken = os.write(descriptor, rest)
        if not taken:
            raise OSError(errno.EIO, f"the disk took {len(data) - len(rest)} of {len(data)} bytes")
        rest = rest[taken:]


def sync_way_to(root: BundleRoot) -> None:
    """Sync the folders above a new bundle root, up to the mount: they may be as new as it is."""
    device = root.path.stat().st_dev
    for folder in root.path.parents:
        if folder.stat().st_dev != device or not os.access(folder, os.R_OK):
            return
        sync(folder)
