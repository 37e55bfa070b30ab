"""Access to files below a folder without following links, whatever happens to the tree meanwhile.

A path is checked and opened in two steps, and between them a folder may become a link to anywhere. So each folder on
the way is opened below the one before, without following links. A file is looked at and opened below its folder's
descriptor. This is the only place that opens files of a work tree.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

_WAY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags to pass through a folder; with O_PATH it need not be readable."""
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OUTSIDE = (b"", b".", b"..")
_LEADS_OUT = re.compile(rb"(?:^|/)\.{0,2}(?:/|\Z)")


class OutsideError(OSError):
    """A path leads, or may lead, out of the folder: by a name like '..', or by a link on the way."""


class Beneath:
    """Files by their raw path below a folder. A context manager."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._top = -1
        self._folder = b""
        self._opened = -1
        """Descriptor of the folder that was opened last; -1 for none."""

    def __enter__(self) -> Beneath:
        self._top = os.open(self._root, _WAY)
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()
        os.close(self._top)

    def open_folder(self, folder: bytes) -> int:
        """Return the descriptor of a folder; it is closed when another one is opened.

        Args:
            folder: Raw path below the root; "" for the root itself.

        Returns:
            Descriptor of the folder.

        Raises:
            OutsideError: The way leads over a link.
            OSError: The folder does not exist, or may not be opened.
        """
        if not folder:
            return self._top
        if self._opened < 0 or folder != self._folder:
            self._leave()
            self._opened = self._descend(folder)
            self._folder = folder
        return self._opened

    def status(self, path: bytes) -> os.stat_result:
        """Return the `lstat` result of a path.

        Args:
            path: Raw path below the root.

        Returns:
            Status of the file, or of a link itself.

        Raises:
            OSError: As `open_folder` does; or the path does not exist.
        """
        folder, name = _split(path)
        return os.stat(name, dir_fd=self.open_folder(folder), follow_symlinks=False)

    def read(self, path: bytes, limit: int) -> bytes:
        """Read at most limit + 1 bytes of a regular file; a pipe does not block.

        Args:
            path: Raw path below the root.
            limit: Largest size in bytes that the caller accepts.

        Returns:
            The bytes; more than `limit` of them when the file is larger.

        Raises:
            OSError: As `open_folder` does; or the file cannot be read.
        """
        folder, name = _split(path)
        with open(os.open(name, _FILE, dir_fd=self.open_folder(folder)), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise OSError("it is no regular file any more")
            return stream.read(limit + 1)

    def entries(self, folder: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield (name, True for a folder that is not a link) of the entries of a folder, in no order.

        Args:
            folder: Raw path below the root.

        Yields:
            Names and kinds.

        Raises:
            OSError: As `open_folder` does.
        """
        descriptor = os.open(b".", _LIST, dir_fd=self.open_folder(folder))
        try:
            with os.scandir(descriptor) as listed:
                for entry in listed:
                    yield os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)
        finally:
            os.close(descriptor)

    def _descend(self, folder: bytes) -> int:
        descriptor = self._top
        for name in folder.split(b"/"):
            above = descriptor
            try:
                descriptor = _open_below(above, name)
            finally:
                if above != self._top:
                    os.close(above)
        return descriptor

    def _leave(self) -> None:
        if self._opened >= 0:
            os.close(self._opened)
        self._opened = -1


def leads_out(path: bytes) -> bool:
    """Return whether a path is absolute or holds a name like '..'."""
    return _LEADS_OUT.search(path) is not None


def _open_below(above: int, name: bytes) -> int:
    if name in _OUTSIDE:
        raise OutsideError(f"{name!r} is no folder below another")
    try:
        return os.open(name, _WAY, dir_fd=above)
    except OSError:
        # Systems differ in the error for a link.
        if stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
            raise OutsideError(f"{name!r} is a link") from None
        raise


def _split(path: bytes) -> tuple[bytes, bytes]:
    folder, _, name = path.rpartition(b"/")
    if name in _OUTSIDE or (not folder and path.startswith(b"/")):
        raise OutsideError(f"{path!r} names no file below the folder")
    return folder, name
