"""Places of the pages of the chunks' texts in ``tables/chunks.*parquet``, for readers that inflate one page.

`write_table` cuts the column ``text`` into pages of about 16 KB. A page is a header in Thrift's compact protocol and a
gzip member: the lengths of some texts, then the texts, one behind the other. Arrow tells where a column begins and how
long it is, and not where its pages do. So the writer of a version reads their headers once, and ``rows/text_pages.npy``
has a row of `PAGE` for each: where it lies in its file, and which part of the shard's texts it holds.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# Arrow ships no type stubs.

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.errors import PublishError

PAGES_FILE = "text_pages.npy"
PAGE = np.dtype(
    [
        ("shard", np.int32),
        ("bytes", np.int32),  # of text
        ("start", np.int64),  # among the texts of the shard
        ("offset", np.int64),  # in the file
        ("size", np.int32),  # there
        ("raw", np.int32),  # inflated, with the lengths in front of the texts
    ]
)
_COLUMN = "text"
_DATA_PAGE, _LENGTHS_THEN_BYTES = 0, 6
_LONGEST_HEADER = 1_024
_TYPE, _RAW, _SIZE, _DATA_HEADER = 1, 2, 3, 5
"""Fields of a page's header."""
_VALUES, _ENCODING = 1, 2
"""Fields of the header of a page with data."""


def write_text_pages(paths: BundlePaths, shards: np.ndarray, text_bytes: np.ndarray) -> None:
    """Write the array of pages to ``rows/``.

    Args:
        paths: Paths of the version.
        shards: (n,) shard of each chunk, in any order that is the table's within a shard.
        text_bytes: (n,) size of each chunk's text.

    Raises:
        PublishError: A table has pages of another kind.
    """
    found: list[np.ndarray] = []
    for number, file in paths.chunk_tables().items():
        pages, values = _pages_of(file)
        ends = np.cumsum([0, *text_bytes[shards == number].tolist()])
        # A catalog that lacks chunks of the table is for the checks to find.
        ends = ends[np.minimum(np.cumsum([0, *values]), len(ends) - 1)]
        pages["shard"], pages["start"], pages["bytes"] = number, ends[:-1], np.diff(ends)
        found.append(pages)
    np.save(paths.rows / PAGES_FILE, np.concatenate([np.zeros(0, PAGE), *found]), allow_pickle=False)


def _pages_of(file: Path) -> tuple[np.ndarray, list[int]]:
    """Return the pages of a table's texts without their places in them, and the number of texts in each page."""
    import pyarrow.parquet as pq

    pages: list[tuple[int, int, int]] = []
    values: list[int] = []
    with pq.ParquetFile(file) as parquet, file.open("rb") as stream:
        for group in range(parquet.metadata.num_row_groups):
            columns = parquet.metadata.row_group(group)
            (column,) = (
                each for each in map(columns.column, range(columns.num_columns)) if each.path_in_schema == _COLUMN
            )
            at = column.data_page_offset
            end = at + column.total_compressed_size
            while at < end:
                stream.seek(at)
                header, length = _struct(stream.read(_LONGEST_HEADER), 0) if column.compression == "GZIP" else ({}, 0)
                data = header.get(_DATA_HEADER, {})
                if (header.get(_TYPE), data.get(_ENCODING)) != (_DATA_PAGE, _LENGTHS_THEN_BYTES):
                    raise PublishError(f"{file.name} has texts in pages of another kind", suggestion="report this")
                pages.append((at + length, header[_SIZE], header[_RAW]))
                values.append(data[_VALUES])
                at += length + header[_SIZE]
    found = np.zeros(len(pages), PAGE)
    for name, numbers in zip(("offset", "size", "raw"), np.array(pages, np.int64).reshape(-1, 3).T, strict=True):
        found[name] = numbers
    return found, values


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """Parse a struct of Thrift's compact protocol that holds booleans, whole numbers and structs.

    Args:
        data: Bytes that hold it.
        at: Position at which it begins.

    Returns:
        Values by number of the field, and the position behind it.

    Raises:
        PublishError: It holds something else.
    """
    fields: dict[int, Any] = {}
    number = 0
    while data[at]:
        step, kind = data[at] >> 4, data[at] & 15
        at += 1
        if step:
            number += step
        else:
            number, at = _signed(data, at)
        if kind in (1, 2):
            fields[number] = kind == 1
        elif kind in (4, 5, 6):
            fields[number], at = _signed(data, at)
        elif kind == 12:
            fields[number], at = _struct(data, at)
        else:
            raise PublishError(f"the header of a page holds a field of kind {kind}", suggestion="report this")
    return fields, at + 1


def _signed(data: bytes, at: int) -> tuple[int, int]:
    """Parse a number in groups of seven bits whose lowest bit is the sign, and return it and the position behind it."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return (number >> 1) ^ -(number & 1), at
