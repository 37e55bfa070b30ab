"""The vectors of a dense index: mapped from the tables ``embeddings``, the only place in which a version has them.

`write_vectors` of `schemas.bundle.tables` lays such a table out so that its numbers, (n, d) float16 in the order of the
rows, are the last bytes before the Parquet footer. So the bytes that DuckDB and Arrow read as a column are also the
codes of a FAISS index in half precision. FAISS compares them where they are mapped, and sums in float32.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# FAISS's stubs know neither views of mapped memory nor every overload.

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.errors import UnavailableError

if TYPE_CHECKING:
    import faiss

_NUMBER_BYTES = 2
_MAGIC = b"PAR1"
_REMEDY = "roll back, or index again"


class VectorTable:
    """Vectors by row, float32 when they are read and float16 where they lie."""

    def __init__(self, parts: Sequence[np.ndarray], dim: int) -> None:
        """Use mapped codes.

        Args:
            parts: (m, 2 d) uint8 each, the rows of one file; numbered consecutively.
            dim: Length of a vector.
        """
        self.parts = tuple(parts)
        self.shape = (sum(map(len, parts)), dim)
        self._starts = np.cumsum([0, *map(len, parts)]).tolist()

    @classmethod
    def open(cls, paths: BundlePaths, manifest: Manifest, dim: int) -> Self:
        """Map the vectors of a dense index.

        Args:
            paths: Paths of the version, for the dense index.
            manifest: Manifest of the version, which promises the rows of each file.
            dim: Length of a vector.

        Returns:
            The mapped vectors.

        Raises:
            UnavailableError: A file is missing, or cannot hold so many vectors.
        """
        rows = {entry.path: entry.rows or 0 for entry in manifest.files}
        files = paths.table_files(paths.embeddings)
        return cls([map_codes(file, rows.get(f"tables/{file.name}", 0), dim) for file in files], dim)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return vectors, (m, d) float32, of a slice without a step or of rows, (m,) int64."""
        if isinstance(rows, slice):
            return _decoded(np.concatenate([*self.between(rows).parts, self._none()]), self.shape[1])
        found = np.empty((len(rows), self.shape[1]), np.float32)
        number = np.searchsorted(self._starts, rows, side="right") - 1
        for part in np.unique(number).tolist():
            own = number == part
            found[own] = _decoded(self.parts[part][rows[own] - self._starts[part]], self.shape[1])
        return found

    def between(self, rows: slice) -> VectorTable:
        """Return the vectors of a slice without a step, still mapped."""
        start, stop, _ = rows.indices(len(self))
        first = max(0, bisect_right(self._starts, start) - 1)
        cut = [
            part[max(0, start - at) : max(0, stop - at)]
            for part, at in zip(self.parts[first:], self._starts[first:], strict=False)
            if at < stop
        ]
        return VectorTable(cut, self.shape[1])

    def _none(self) -> np.ndarray:
        return np.empty((0, _NUMBER_BYTES * self.shape[1]), np.uint8)


def map_codes(file: Path, rows: int, dim: int) -> np.ndarray:
    """Map the numbers of a table of vectors, read-only.

    Args:
        file: Table as `write_vectors` wrote it; its bytes are checked elsewhere.
        rows: Rows that it has.
        dim: Length of a vector.

    Returns:
        (rows, 2 dim) uint8: float16 numbers, which may begin at an odd address.

    Raises:
        UnavailableError: The file cannot be read, is no Parquet file, or is too short for so many vectors.
    """
    wanted = rows * dim * _NUMBER_BYTES
    try:
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            stream.seek(max(0, size - 8))
            tail = stream.read(8)
            start = size - 8 - int.from_bytes(tail[:4], "little") - wanted
            if tail[4:] != _MAGIC or start < len(_MAGIC):
                raise UnavailableError(f"{file.name} does not hold {rows} vectors of {dim} dimensions; {_REMEDY}")
            if not wanted:
                return np.empty((0, dim * _NUMBER_BYTES), np.uint8)
            mapped = np.memmap(stream, np.uint8, "r", start, (rows, dim * _NUMBER_BYTES))
    except (OSError, ValueError) as error:
        raise UnavailableError(f"{file.name}: the vectors cannot be mapped; {_REMEDY}") from error
    return mapped.view(np.ndarray)


def exact_indexes(vectors: VectorTable, chunk_ids: np.ndarray) -> list[faiss.IndexIDMap2]:
    """Return an exact index over mapped vectors, one for each file.

    Args:
        vectors: The vectors, which the indexes keep.
        chunk_ids: (n,) int64, in the order of the vectors.

    Returns:
        The indexes.

    Raises:
        UnavailableError: There are not as many ids as vectors.
    """
    import faiss

    if len(chunk_ids) != len(vectors):
        raise UnavailableError(f"the id map has {len(chunk_ids)} rows, the table of vectors {len(vectors)}")
    views: Any = faiss.MaybeOwnedVectorUInt8
    found: list[faiss.IndexIDMap2] = []
    start = 0
    for codes in vectors.parts:
        inner = _half(vectors.shape[1])
        index: Any = faiss.IndexIDMap2(inner)  # which takes only an empty one
        if len(codes):
            inner.codes = views.create_view(faiss.swig_ptr(codes), codes.nbytes, inner.codes.owner)
        own = np.ascontiguousarray(chunk_ids[start : start + len(codes)], np.int64)
        faiss.copy_array_to_vector(own, index.id_map)
        inner.ntotal = index.ntotal = len(codes)
        index.referenced_objects = [inner, codes]  # they have to live as long as it does
        found.append(index)
        start += len(codes)
    return found


def flat_copy(index: faiss.Index) -> faiss.Index:
    """Return a copy in float32 of an index in half precision, of which a GPU holds none; any other as it is."""
    import faiss

    if not isinstance(index, faiss.IndexScalarQuantizer):
        return index
    flat: Any = faiss.IndexFlatIP(index.d)
    flat.add(index.reconstruct_n(0, index.ntotal))
    return flat


def _decoded(codes: np.ndarray, dim: int) -> np.ndarray:
    return _half(dim).sa_decode(codes) if len(codes) else np.empty((0, dim), np.float32)


def _half(dim: int) -> Any:
    import faiss

    return faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
