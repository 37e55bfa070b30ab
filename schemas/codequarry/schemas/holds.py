"""Who uses a version: readers hold it, and what nobody holds may be removed.

A hold is a shared ``flock`` on the version's ``manifest.json``. It needs no more than a readable descriptor, so it
works on a read-only mount, writes nothing, and the kernel takes it back when the process ends, however it ends. No two
versions share that file, because it names its version. A remover takes the exclusive lock first; where it cannot, the
version stays.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from codequarry.schemas.errors import BusyError, IntegrityError
from codequarry.schemas.layout import BundlePaths

_PATIENCE_S = 5.0
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class Hold:
    """A version that stays where it is until `release`; also a context manager. Releasing twice does nothing."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go. Files that are open or mapped stay usable; the folder may go."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def hold_version(paths: BundlePaths) -> Hold:
    """Keep a version from being removed while the result is held. Take it *before* the manifest is read.

    On a file system without locks nothing is held, and `sole_user` removes nothing there.

    Raises IntegrityError: the version is gone; a reader that got its name from CURRENT reads CURRENT again. BusyError:
    somebody has been removing it for five seconds.
    """
    try:
        descriptor = os.open(paths.manifest, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise _gone(paths, error.strerror or "") from error
    try:
        if not _shared(descriptor):
            raise BusyError(
                f"version {paths.path.name} is being removed", suggestion="try again: CURRENT names another"
            )
        # The lock may have been granted by somebody who had moved the version away meanwhile.
        if not _same(descriptor, paths.manifest):
            raise _gone(paths, "it was removed meanwhile")
    except BaseException:
        os.close(descriptor)
        raise
    return Hold(descriptor)


@contextmanager
def sole_user(path: Path) -> Generator[bool]:
    """Whether nobody else holds a file or folder; when True nobody can until the block ends.

    path: a version's ``manifest.json``, or a staging folder.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield _locked(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


def _shared(descriptor: int) -> bool:
    """Wait for the shared lock: whoever has the exclusive one renames a folder, or only looks."""
    patience = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
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


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except OSError:
        return False


def _gone(paths: BundlePaths, why: str) -> IntegrityError:
    return IntegrityError(
        f"version {paths.path.name} has no readable manifest.json ({why})",
        suggestion="roll back to another version, or publish again",
    )
