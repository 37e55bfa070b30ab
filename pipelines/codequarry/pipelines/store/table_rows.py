"""Rows of Parquet files, a row group in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


def row_groups(file: Path) -> Iterator[pa.Table]:
    """Yield the row groups of a table."""
    with pq.ParquetFile(file) as parquet:
        for group in range(parquet.num_row_groups):
            yield parquet.read_row_group(group)


def rows_among(table: pa.Table, column: str, values: pa.Array) -> pa.Table:
    """Return the rows whose value in a column is one of the given values, in the order of the table."""
    options = pc.SetLookupOptions(value_set=values)
    return table.filter(pc.call_function("is_in", [table[column]], options))
