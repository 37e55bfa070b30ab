"""DuckDB connection that cannot write a file: it reaches files through this module alone, which only reads.

DuckDB's own setting is not enough. ``enable_external_access = false`` still allows the files beside an attached
database, so that ``COPY … TO 'catalog.duckdb.wal'`` writes into a version. ``allowed_directories`` opens a folder for
writing as well as for reading. So the local file system is disabled as a whole before any statement of a user runs.
Every file is read through an fsspec file system that supports only the mode "rb".
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# fsspec ships no types.

from __future__ import annotations

import glob
import io
import os
import stat
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsspec import AbstractFileSystem

if TYPE_CHECKING:
    import duckdb

SCHEME = "bundle"
PREFIX = f"{SCHEME}://"
"""Prefix of absolute paths in DuckDB's SQL."""

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "allow_persistent_secrets": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "temp_directory": "",
}
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory"}
_CONFINE = (
    f"SET allowed_directories = ['{PREFIX}/']",
    "SET enable_external_access = false",
    "SET disabled_filesystems = 'LocalFileSystem'",
)


def confined_connection(folders: Sequence[Path]) -> duckdb.DuckDBPyConnection:
    """Return a connection to an empty database in memory that can read below these folders, and write nowhere.

    Paths in its SQL start with `PREFIX`. No statement can undo these settings.
    """
    import duckdb

    connection = duckdb.connect(config=_CONFIG)
    connection.register_filesystem(ReadOnlyFiles(folders))
    for statement in _CONFINE:
        connection.execute(statement)
    return connection


class ReadOnlyFiles(AbstractFileSystem):
    """Read-only file system of the files below some folders."""

    protocol = SCHEME
    cachable = False

    def __init__(self, folders: Sequence[Path]) -> None:
        super().__init__()
        self._folders = [os.path.realpath(folder) for folder in folders]
        self._real = lru_cache(maxsize=256)(os.path.realpath)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return name, size and type of an entry.

        Args:
            path: Absolute path, with or without `PREFIX`.

        Returns:
            The fields ``name``, ``size`` and ``type``.

        Raises:
            OSError: The entry does not exist, or is not below the folders.
        """
        path = self._inside(path)
        status = os.lstat(path)
        return {"name": path, "size": status.st_size, "type": _KINDS.get(stat.S_IFMT(status.st_mode), "other")}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """List the entries of a folder: with their `info`, or only their paths."""
        path = self._inside(path)
        paths = [os.path.join(path, name) for name in sorted(os.listdir(path))]
        return [self.info(each) for each in paths] if detail else paths

    def glob(self, path: str, maxdepth: int | None = None, **_: Any) -> list[str]:
        """Return paths that match a pattern, sorted.

        DuckDB calls this for each query, and fsspec's own method walks the folders in Python.
        """
        del maxdepth
        return sorted(glob.glob(self._inside(path)))

    def modified(self, path: str) -> datetime:
        """Return the time of the last change."""
        return datetime.fromtimestamp(os.lstat(self._inside(path)).st_mtime, UTC)

    def _open(self, path: str, mode: str = "rb", **_: Any) -> _PositionedFile:
        if mode != "rb":
            raise PermissionError("the files of a version can only be read")
        return _PositionedFile(os.open(self._inside(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW))

    def _inside(self, path: str) -> str:
        folder, name = os.path.split(os.path.normpath(str(self._strip_protocol(path))))
        real = os.path.join(self._real(folder), name)
        if not any(os.path.commonpath([real, folder]) == folder for folder in self._folders):
            raise PermissionError("only the files of versions and of the pool log can be read")
        return real


class _PositionedFile(io.RawIOBase):
    """File that is read from a position of its own for each thread.

    DuckDB's threads share the handle of an attached database, and seek before they read.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._local = threading.local()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return getattr(self._local, "position", 0)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: self._size}[whence]
        self._local.position = max(0, start + offset)
        return self._local.position

    def read(self, size: int = -1) -> bytes:
        position = self.tell()
        data = os.pread(self._descriptor, self._size - position if size < 0 else size, position)
        self._local.position = position + len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()
