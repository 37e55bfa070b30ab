"""Rows of a table in the work folder: by row group, by the values of a column, as arrays."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false
# Arrow ships no type stubs.

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
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


def arrays(embeddings: pa.Table, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ids (n,) int64 and vectors (n, d) float32 of a table of the work folder or of a version."""
    vectors = _numbers_of(embeddings["vector"].combine_chunks().flatten()).reshape(-1, dim)
    return _numbers_of(embeddings["chunk_id"].combine_chunks()), vectors.astype(np.float32, copy=False)


def _numbers_of(values: pa.Array) -> np.ndarray:
    """Return numbers without nulls; Arrow's own function would load pandas where it is installed."""
    kind = np.dtype(values.type.to_pandas_dtype())
    data = values.buffers()[1] if len(values) else None
    return np.empty(0, kind) if data is None else np.frombuffer(data, kind, len(values), values.offset * kind.itemsize)
