"""The dense index: FAISS behind IndexIDMap2, so that the ids it returns are chunk ids.

An exact index is divided like the tables, because a row of it depends on no other. What is trained or linked depends on
all vectors: an approximate index is one file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.layout import BundlePaths
from codequarry.schemas.tables import FAISS_IDMAP, write_table

_TRAINING_VECTORS = 200_000
_SEED = 20_260_728


def is_exact(factory: str, dim: int) -> bool:
    """Whether a factory string makes an index that compares with every vector (Flat).

    Raises InvalidArgumentError: FAISS does not know it.
    """
    import faiss

    try:
        return isinstance(faiss.downcast_index(faiss.index_factory(dim, factory)), faiss.IndexFlat)
    except RuntimeError as error:
        raise _unusable(factory, 0, dim, error) from error


def write_faiss(file: Path, chunk_ids: NDArray[np.int64], vectors: NDArray[np.float32], factory: str) -> None:
    """Write an index.

    chunk_ids: (n,) int64. vectors: (n, d) float32, unit norm; similarity is their inner product.

    One thread builds and trains, with a fixed seed and sample: the same vectors give the same bytes.

    Raises InvalidArgumentError: FAISS does not accept the factory string for this data.
    """
    import faiss

    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        base = faiss.index_factory(vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
        if not base.is_trained:
            sample = np.random.default_rng(_SEED).permutation(len(vectors))[:_TRAINING_VECTORS]
            base.train(vectors[np.sort(sample)])
        index = faiss.IndexIDMap2(base)
        index.add_with_ids(vectors, chunk_ids)
        faiss.write_index(index, str(file))
    except RuntimeError as error:
        raise _unusable(factory, len(vectors), vectors.shape[1], error) from error
    finally:
        faiss.omp_set_num_threads(threads)


def write_approximate(
    paths: BundlePaths, chunk_ids: NDArray[np.int64], vectors: NDArray[np.float32], factory: str
) -> None:
    """Write an index that is not exact, and beside it the vectors, for exact rerank; as `write_faiss`."""
    write_faiss(paths.faiss_index, chunk_ids, vectors, factory)
    np.save(paths.vectors, vectors, allow_pickle=False)


def write_idmap(path: Path, chunk_ids: Sequence[NDArray[np.int64]]) -> None:
    """The sidecar ``(faiss_row, chunk_id)``. chunk_ids: (n,) int64 of each file of the index, in order."""
    ids = np.concatenate(chunk_ids)
    rows = pa.array(np.arange(len(ids)), pa.int64())
    write_table(path, pa.table([rows, pa.array(ids, pa.int64())], schema=FAISS_IDMAP), FAISS_IDMAP)


def _unusable(factory: str, count: int, dim: int, error: RuntimeError) -> InvalidArgumentError:
    reason = str(error).splitlines()[-1][:200]
    return InvalidArgumentError(
        f"[indexes] faiss_factory = {factory!r} cannot index {count} vectors of {dim} dimensions: {reason}",
        suggestion="use 'Flat' (exact), or a factory string that fits the data, e.g. 'HNSW32,SQ8'",
    )
