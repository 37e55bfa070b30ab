"""The dense index: the choice of its type by size, and FAISS behind IndexIDMap2, so that it returns chunk ids.

An exact index is divided like the tables, because a row of it depends on no other. What is trained or linked depends on
all vectors: an approximate index belongs to no shard, see `faiss_stage`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isqrt
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from codequarry.schemas.bundle.tables import FAISS_IDMAP, write_table
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.indexes import AUTO, IndexesSettings
from codequarry.serving.channels.gpu import on_cpu, on_gpu

_MOST_LISTS = 16_384
_TRAINING_PER_LIST = 39
"""Least number of vectors that FAISS needs to train a list."""


def faiss_factory(count: int, dim: int, settings: IndexesSettings) -> str:
    """Return the FAISS factory string for a number of vectors and their dimension.

    >>> [faiss_factory(count, 256, IndexesSettings()) for count in (199_999, 200_000, 1_000_000)]
    ['Flat', 'IVF223,PQ128x4fs_64', 'IVF500,PQ128x4fs_64']
    >>> faiss_factory(200_000, 256, IndexesSettings(faiss_gpu=True))
    'IVF1788,SQ8'
    >>> faiss_factory(60_000, 256, IndexesSettings(faiss_graph_from=50_000))
    'HNSW32,SQ8'
    >>> [faiss_factory(count, 256, IndexesSettings()) for count in (2_000_000, 30_000_000)]
    ['IVF16384_HNSW32,SQ8', 'IVF16384_HNSW32,RaBitQ,Refine(SQ8)']
    """
    if settings.faiss_factory != AUTO:
        return settings.faiss_factory
    if count < settings.faiss_graph_from:
        return "Flat"
    if count < settings.faiss_lists_from:
        return "HNSW32,SQ8"
    if count < settings.faiss_coarse_from:
        # Two components of a vector take four bits, and 64 vectors are compared at a time. A GPU has no such index.
        fast = dim % 2 == 0 and not settings.faiss_gpu
        return f"IVF{isqrt(count) // 2},PQ{dim // 2}x4fs_64" if fast else f"IVF{4 * isqrt(count)},SQ8"
    parts = faiss_parts(count, settings)
    lists = max(1, min(_MOST_LISTS, count // parts // _TRAINING_PER_LIST))
    return f"IVF{lists}_HNSW32," + ("SQ8" if parts == 1 else "RaBitQ,Refine(SQ8)")


def faiss_parts(count: int, settings: IndexesSettings) -> int:
    """Return the number of files that an approximate index of that many vectors is divided into.

    >>> [faiss_parts(count, IndexesSettings()) for count in (1, 10_000_000, 10_000_001, 30_000_000)]
    [1, 1, 2, 3]
    """
    return max(1, ceil(count / settings.faiss_shard_vectors))


_TRAINING_VECTORS = 200_000
_BLOCK = 65_536
"""Vectors added at a time."""
_SEED = 20_260_728


def is_exact(factory: str, dim: int) -> bool:
    """Return whether a factory string makes an index that compares with every vector (Flat).

    Args:
        factory: FAISS factory string.
        dim: Dimension of the vectors.

    Returns:
        True for an exact index.

    Raises:
        InvalidArgumentError: FAISS does not know the factory string.
    """
    import faiss

    try:
        return isinstance(faiss.downcast_index(faiss.index_factory(dim, factory)), faiss.IndexFlat)
    except RuntimeError as error:
        raise _unusable(factory, 0, dim, error) from error


def write_faiss(
    file: Path,
    chunk_ids: NDArray[np.int64],
    vectors: NDArray[np.float32],
    factory: str,
    *,
    training: int = _TRAINING_VECTORS,
    gpu: bool = False,
) -> None:
    """Write an index.

    One thread builds and trains, with a fixed seed and sample: the same vectors give the same bytes, on a CPU.

    Args:
        file: File to write.
        chunk_ids: Ids, (n,) int64.
        vectors: (n, d) float32, unit norm, mapped or not; similarity is their inner product.
        factory: FAISS factory string.
        training: Vectors to train on, unless FAISS needs more.
        gpu: Train and fill an IVF index on a GPU, if possible.

    Raises:
        InvalidArgumentError: FAISS does not accept the factory string for this data.
    """
    import faiss

    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        base = faiss.index_factory(vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
        ivf = faiss.try_extract_index_ivf(base)
        worker = (on_gpu(base) if gpu and ivf is not None else None) or base
        if not worker.is_trained:
            wanted = max(training, _TRAINING_PER_LIST * (ivf.nlist if ivf is not None else 0))
            sample = np.random.default_rng(_SEED).permutation(len(vectors))[:wanted]
            worker.train(np.ascontiguousarray(vectors[np.sort(sample)]))
        index = faiss.IndexIDMap2(base)
        for start in range(0, len(vectors), _BLOCK):
            worker.add(np.ascontiguousarray(vectors[start : start + _BLOCK]))
        filled = worker if worker is base else on_cpu(worker)
        index.index, index.ntotal, index.is_trained = filled, filled.ntotal, True
        faiss.copy_array_to_vector(np.ascontiguousarray(chunk_ids, np.int64), index.id_map)
        faiss.write_index(index, str(file))
    except RuntimeError as error:
        raise _unusable(factory, len(vectors), vectors.shape[1], error) from error
    finally:
        faiss.omp_set_num_threads(threads)


def write_idmap(path: Path, chunk_ids: Sequence[NDArray[np.int64]]) -> None:
    """Write the sidecar ``(faiss_row, chunk_id)``.

    Args:
        path: File to write.
        chunk_ids: Ids of each file of the index, in order, (n,) int64 each.
    """
    ids = np.concatenate(chunk_ids)
    rows = pa.array(np.arange(len(ids)), pa.int64())
    write_table(path, pa.table([rows, pa.array(ids, pa.int64())], schema=FAISS_IDMAP), FAISS_IDMAP)


def _unusable(factory: str, count: int, dim: int, error: RuntimeError) -> InvalidArgumentError:
    reason = str(error).splitlines()[-1][:200]
    return InvalidArgumentError(
        f"[indexes] faiss_factory = {factory!r} cannot index {count} vectors of {dim} dimensions: {reason}",
        suggestion="use 'Flat' (exact), or a factory string that fits the data, e.g. 'HNSW32,SQ8'",
    )


def arrays(embeddings: pa.Table, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ids (n,) int64 and vectors (n, d) float32 of a table."""
    vectors = embeddings["vector"].combine_chunks().flatten().to_numpy().reshape(-1, dim)
    return embeddings["chunk_id"].to_numpy(), vectors
