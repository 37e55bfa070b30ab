"""Durable writes that survive power loss: files and folders are synced, lines and single files replaced whole."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from codequarry.schemas.bundle.layout import BundleRoot, Current

ASIDE = ".new"
"""Suffix of the temporary name that a file is written under."""
_NO_FULL_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOTTY, errno.ENOSYS})
"""Errors of file systems that lack F_FULLFSYNC, as network file systems."""


def sync(path: Path) -> None:
    """Force a file's bytes, or a folder's names, to the disk.

    Args:
        path: File or folder.

    Raises:
        OSError: The disk refuses.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _sync(descriptor: int) -> None:
    """Call `os.fsync`, and F_FULLFSYNC where `fsync` stops at the drive's cache (macOS)."""
    os.fsync(descriptor)
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        try:
            fcntl.fcntl(descriptor, full)
        except OSError as error:
            if error.errno not in _NO_FULL_SYNC:
                raise


def write_line(target: Path, line: Current) -> None:
    """Replace a file by a line: at any moment, power loss included, it holds the old or the new content."""
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
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600 | os.stat(path.parent).st_mode & 0o044)  # for those who may list its folder
        if os.write(descriptor, data) != len(data):
            raise OSError(f"{path} took not all of {len(data)} bytes")
        _sync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def new_file(target: Path) -> Iterator[int]:
    """Yield a descriptor of a temporary file, which takes its final name, whole and synced, when the block ends.

    After an exception nothing of the file is left. Concurrent writers do not collide: each has its own temporary file
    until the rename.

    Args:
        target: Final path of the file.

    Yields:
        Descriptor to write to.

    Raises:
        OSError: The disk refuses.
    """
    aside = target.with_name(f".codequarry-{secrets.token_hex(4)}{ASIDE}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            yield descriptor
            _sync(descriptor)
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
    """Write every byte, in as many calls as it takes.

    Args:
        descriptor: Open file descriptor.
        data: Bytes to write.

    Raises:
        OSError: The disk refuses, or takes nothing.
    """
    rest = memoryview(data)
    while rest:
        taken = os.write(descriptor, rest)
        if not taken:
            raise OSError(errno.EIO, f"the disk took {len(data) - len(rest)} of {len(data)} bytes")
        rest = rest[taken:]


def sync_way_to(root: BundleRoot) -> None:
    """Sync the folders above a new bundle root, up to the mount point: they may be as new as the root."""
    device = root.path.stat().st_dev
    for folder in root.path.parents:
        if folder.stat().st_dev != device or not os.access(folder, os.R_OK):
            return
        sync(folder)
