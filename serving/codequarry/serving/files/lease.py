"""Leases of versions: readers hold a version, and versions that are not held may be removed.

A hold is a shared lock on the version's ``manifest.json``. It needs only a readable descriptor, so it works on a
read-only mount, and it writes nothing. The kernel releases it when the process ends, however it ends. Every version has
its own manifest, because the manifest names its version. A remover takes the exclusive lock first; if it cannot, the
version stays.

On Linux it is a lock of the open file description (``F_OFD_SETLK``), whose exclusive kind needs a writable descriptor.
So a process that may only read a version can hold it, but cannot keep others out. With ``flock``, which is used
elsewhere and for folders, it could.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.errors import BusyError, IntegrityError
from codequarry.schemas.resources import raise_if_exhausted

_PATIENCE_S = 5.0
_BY_DESCRIPTION = sys.platform == "linux"
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class Hold:
    """Hold on a version that keeps it in place until `release`; also a context manager. May be released twice."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the hold. Files that are open or mapped stay usable; the folder may be removed."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def hold_version(paths: BundlePaths) -> Hold:
    """Keep a version from being removed while the result is held. Call it *before* the manifest is read.

    On a file system without locks nothing is held, and `sole_user` removes nothing there.

    Args:
        paths: Paths of the version.

    Returns:
        The hold.

    Raises:
        IntegrityError: The version is gone; a reader that got its name from CURRENT reads CURRENT again.
        BusyError: Another process has been removing it for five seconds.
    """
    try:
        descriptor = os.open(paths.manifest, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise_if_exhausted(error, f"version {paths.path.name} cannot be held now")
        raise _missing_version(paths, error.strerror or "") from error
    try:
        if not _shared(descriptor):
            raise BusyError(
                f"version {paths.path.name} is being removed", suggestion="try again: CURRENT names another"
            )
        # The lock may have become free because another process moved the version away.
        if not _same(descriptor, paths.manifest):
            raise _missing_version(paths, "it was removed meanwhile")
    except BaseException:
        os.close(descriptor)
        raise
    return Hold(descriptor)


@contextmanager
def sole_user(path: Path) -> Generator[bool]:
    """Try to lock a file or folder exclusively for the block.

    Args:
        path: A version's ``manifest.json``, or a staging folder.

    Yields:
        True when no other process holds it, and none can until the block ends. False also when the file is not
        writable, because then others cannot be kept out.

    Raises:
        OSError: The path is gone.
    """
    descriptor = _open_to_exclude(path)
    try:
        yield descriptor is not None and _exclusive(descriptor)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_held(path: Path) -> bool:
    """Tell whether any process holds a version, without holding it.

    Args:
        path: The version's ``manifest.json``.

    Returns:
        True when the version is held.

    Raises:
        OSError: The file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if not _BY_DESCRIPTION:
            return not _exclusive(descriptor)
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_WRLCK))
        return struct.unpack_from("h", found)[0] != fcntl.F_UNLCK
    finally:
        os.close(descriptor)


def _open_to_exclude(path: Path) -> int | None:
    """Open a descriptor that can take the exclusive lock; None when the file is not writable."""
    writes = _BY_DESCRIPTION and not path.is_dir()
    try:
        return os.open(path, (os.O_RDWR if writes else os.O_RDONLY) | os.O_CLOEXEC)
    except OSError as error:
        if writes and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return None
        raise


def _shared(descriptor: int) -> bool:
    """Wait for the shared lock; the owner of the exclusive lock renames a folder, or only checks for holds."""
    patience = time.monotonic() + _PATIENCE_S
    while True:
        try:
            _lock(descriptor, exclusive=False)
        except BlockingIOError:
            if time.monotonic() > patience:
                return False
            time.sleep(0.005)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return True
        else:
            return True


def _exclusive(descriptor: int) -> bool:
    try:
        _lock(descriptor, exclusive=True)
    except OSError:
        return False
    return True


def _lock(descriptor: int, *, exclusive: bool) -> None:
    """Take the lock now.

    Args:
        descriptor: Open file or folder.
        exclusive: Take the exclusive lock.

    Raises:
        BlockingIOError: Another process has the lock.
        OSError: The file system has no locks.
    """
    if not _BY_DESCRIPTION or stat.S_ISDIR(os.fstat(descriptor).st_mode):
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        return
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_WRLCK if exclusive else fcntl.F_RDLCK))
    except PermissionError as error:  # POSIX lets it be EACCES as well
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error


def _whole_file(kind: int) -> bytes:
    """Return ``struct flock`` of Linux: kind, whence, start, length (0: to the end), and no process."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0)


def _same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except OSError:
        return False


def _missing_version(paths: BundlePaths, why: str) -> IntegrityError:
    return IntegrityError(
        f"version {paths.path.name} has no readable manifest.json ({why})",
        suggestion="roll back to another version, or publish again",
    )
