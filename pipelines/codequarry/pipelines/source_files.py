"""A source's files, opened: the one seam between files on disk and files in a commit's objects."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from codequarry.pipelines.git import SUBMODULE_MODE, SYMLINK_MODE, BlobReader
from codequarry.pipelines.sources import Source


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What is known of a path before it is read."""

    mode: int
    """As ``lstat`` gives it."""
    size_bytes: int


class SourceFiles(Protocol):
    """Files by their raw path, relative to the root. A context manager."""

    def __enter__(self) -> SourceFiles: ...

    def __exit__(self, *_: object) -> None: ...

    def escapes(self, folder: bytes) -> bool:
        """True when a folder lies outside the source, by a link or by its name."""
        ...

    def status(self, path: bytes) -> FileStatus | None:
        """None when the path is listed but not there."""
        ...

    def read(self, path: bytes, limit: int) -> bytes:
        """At most limit + 1 bytes. Raises OSError: the file cannot be read."""
        ...


def open_files(source: Source) -> SourceFiles:
    """The files of a source, on disk or in its commit."""
    return _CommitFiles(source) if source.from_commit else _DiskFiles(source)


def read_plain(files: SourceFiles, path: bytes, limit: int) -> bytes | None:
    """A small regular file's bytes; None for everything else."""
    found = files.status(path)
    if found is None or not stat.S_ISREG(found.mode) or found.size_bytes > limit:
        return None
    with suppress(OSError):
        return files.read(path, limit)
    return None


class _DiskFiles:
    def __init__(self, source: Source) -> None:
        self._root = os.fsencode(source.root)

    def __enter__(self) -> _DiskFiles:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def escapes(self, folder: bytes) -> bool:
        """A linked folder on the way may lead out of the source."""
        return os.path.commonpath([self._root, os.path.realpath(os.path.join(self._root, folder))]) != self._root

    def status(self, path: bytes) -> FileStatus | None:
        try:
            found = os.lstat(os.path.join(self._root, path))
        except OSError:
            return None
        return FileStatus(found.st_mode, found.st_size)

    def read(self, path: bytes, limit: int) -> bytes:
        """Never through a link that appeared meanwhile, never blocking on a pipe."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(os.path.join(self._root, path), flags), "rb") as stream:
            return stream.read(limit + 1)


class _CommitFiles:
    def __init__(self, source: Source) -> None:
        self._entries = source.head
        self._blobs = BlobReader(source.root)

    def __enter__(self) -> _CommitFiles:
        self._blobs.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._blobs.__exit__()

    def escapes(self, folder: bytes) -> bool:
        """git refuses such names on checkout; a tree written by hand can hold them."""
        parts = folder.split(b"/")
        return b".." in parts or b"." in parts or b"" in parts[: len(parts) - 1] or folder.startswith(b"/")

    def status(self, path: bytes) -> FileStatus | None:
        entry = self._entries.get(path)
        if entry is None:
            return None
        if entry.mode == SYMLINK_MODE:
            return FileStatus(stat.S_IFLNK, entry.size or 0)
        if entry.mode == SUBMODULE_MODE:
            return FileStatus(stat.S_IFDIR, 0)
        return None if entry.size is None else FileStatus(stat.S_IFREG, entry.size)

    def read(self, path: bytes, limit: int) -> bytes:
        data = self._blobs.read(self._entries[path].oid)
        if data is None:
            raise OSError("the object is missing")
        return data[: limit + 1]
