"""Access to a source's files: one interface for files on disk and files in a commit's objects."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Protocol

from codequarry.pipelines.git.trees import SUBMODULE_MODE, SYMLINK_MODE, BlobReader
from codequarry.pipelines.sources.beneath import Beneath, OutsideError, leads_out
from codequarry.pipelines.sources.sources import Source
from codequarry.pipelines.sources.stamps import Stamp, stamp_of
from codequarry.schemas.resources import raise_if_exhausted


@dataclass(frozen=True, slots=True)
class FileStatus:
    """Metadata of a path before it is read."""

    mode: int
    """Mode as of ``lstat``."""
    size_bytes: int
    stamp: Stamp | None = None
    """Stamp of a file on disk; None in a commit."""


class SourceFiles(Protocol):
    """Files by their raw path, relative to the root. A context manager."""

    def __enter__(self) -> SourceFiles: ...

    def __exit__(self, *_: object) -> None: ...

    def escapes(self, folder: bytes) -> bool:
        """Return whether a folder lies outside the source, or may: by a link on the way or by its name."""
        ...

    def status(self, path: bytes) -> FileStatus | None:
        """Return the status of a path; None when it is listed but does not exist."""
        ...

    def read(self, path: bytes, limit: int) -> bytes:
        """Read at most limit + 1 bytes of a file.

        Args:
            path: Raw path relative to the root.
            limit: Largest size in bytes that the caller accepts.

        Returns:
            The bytes.

        Raises:
            OSError: The file cannot be read.
        """
        ...


def open_files(source: Source) -> SourceFiles:
    """Return the files of a source, on disk or in its commit."""
    return _CommitFiles(source) if source.from_commit else _DiskFiles(source)


def read_plain(files: SourceFiles, path: bytes, limit: int) -> bytes | None:
    """Return a small regular file's bytes; None for everything else."""
    found = files.status(path)
    if found is None or not stat.S_ISREG(found.mode) or found.size_bytes > limit:
        return None
    try:
        return files.read(path, limit)
    except OSError as error:
        raise_if_exhausted(error, f"{os.fsdecode(path)} cannot be read now")
        return None


class _DiskFiles:
    def __init__(self, source: Source) -> None:
        self._tree = Beneath(os.fsencode(source.root))

    def __enter__(self) -> _DiskFiles:
        self._tree.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._tree.__exit__()

    def escapes(self, folder: bytes) -> bool:
        """Return whether a linked folder on the way may lead out of the source."""
        try:
            self._tree.open_folder(folder)
        except OutsideError:
            return True
        except OSError:
            return False
        return False

    def status(self, path: bytes) -> FileStatus | None:
        try:
            status = self._tree.status(path)
        except OSError:
            return None
        return FileStatus(status.st_mode, status.st_size, stamp_of(status))

    def read(self, path: bytes, limit: int) -> bytes:
        return self._tree.read(path, limit)


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
        """Return whether a folder's name leads out: git refuses it on checkout, but a tree can hold it."""
        return bool(folder) and leads_out(folder)

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
        data = self._blobs.read(self._entries[path].oid, limit)
        if data is None:
            raise OSError("the object is missing, or larger than its entry says")
        return data
