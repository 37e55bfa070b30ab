"""Stamps of files of a folder without git: a file whose size, times and inode are as before need not be read again.

As git's index does, a stamp is not trusted of a file that was written about when it was read: another write within the
same tick of the file system's clock would not show.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from codequarry.schemas.bundle.tables import read_table, write_table

_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("modified_ns", pa.int64(), nullable=False),
        pa.field("changed_ns", pa.int64(), nullable=False),
        pa.field("inode", pa.uint64(), nullable=False),
    ]
)
_SETTLED_NS = 2_000_000_000
"""Age from which on a file's times tell of every write: the coarsest clock of a file system counts in two seconds."""


class Stamp(NamedTuple):
    """Metadata that a write to a file changes."""

    size_bytes: int
    modified_ns: int
    """Time of the last write to its contents, in nanoseconds since 1970."""
    changed_ns: int
    """Time of the last change of its metadata, in nanoseconds since 1970."""
    inode: int


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file."""
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def is_settled(stamp: Stamp, now_ns: int) -> bool:
    """Return whether a later write would change a stamp that was taken at a time, in nanoseconds since 1970.

    >>> old = Stamp(12, modified_ns=10**18, changed_ns=10**18, inode=7)
    >>> is_settled(old, 10**18 + 3 * 10**9), is_settled(old, 10**18 + 10**9)
    (True, False)
    """
    return max(stamp.modified_ns, stamp.changed_ns) < now_ns - _SETTLED_NS


def write_stamps(path: Path, stamps: Mapping[str, Stamp]) -> None:
    """Write the stamps of files, by path below the source.

    Args:
        path: File to write.
        stamps: Stamps that are settled, one at least.

    Raises:
        OSError: The file cannot be written.
    """
    rows = [(name, *stamp) for name, stamp in stamps.items()]
    arrays = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), _SCHEMA, strict=True)]
    write_table(path, pa.table(arrays, schema=_SCHEMA), _SCHEMA)


def read_stamps(path: Path) -> dict[str, Stamp]:
    """Return the stamps of files, by path below the source; none where the file is missing."""
    if not path.is_file():
        return {}
    names, *columns = (column.to_pylist() for column in read_table(path, _SCHEMA.names).columns)
    return dict(zip(names, map(Stamp._make, zip(*columns, strict=True)), strict=True))
