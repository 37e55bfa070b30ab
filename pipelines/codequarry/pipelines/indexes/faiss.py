"""The dense index: the choice of its type by size, and FAISS behind IndexIDMap2, so that it returns chunk ids.

An exact index is divided like the tables, because a row of it depends on no other. What is trained or linked depends on
all vectors: an approximate index belongs to no shard, see `faiss_stage`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from codequarry.pipelines.store.device_use import DeviceUse
from codequarry.schemas.bundle.tables import FAISS_IDMAP, write_table
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.resources import available_cores
from codequarry.schemas.settings.indexes import AUTO, IndexesSettings
from codequarry.serving.channels.gpu import copy_to_gpu, gpu_problem, has_gpu, last_line, on_cpu
from codequarry.serving.channels.vector_table import VectorTable

if TYPE_CHECKING:
    import faiss

_MOST_LISTS = 16_384
_TRAINING_PER_LIST = 39
"""Least number of vectors that FAISS needs to train a list."""


def builds_on_gpu(settings: IndexesSettings) -> bool:
    """Return whether the settings ask for a GPU and FAISS sees one: its ladder has other rungs."""
    return settings.faiss_gpu and has_gpu()


EXACT = "Flat"
"""Factory string of an index that compares with every vector."""


def faiss_factory(count: int, dim: int, settings: IndexesSettings, *, gpu: bool = False) -> str:
    """Return the FAISS factory string for a number of vectors and their dimension.

    A GPU holds neither graphs nor four-bit codes that are compared many at a time, so that all its rungs are plain
    lists. Without one the ladder is that of the CPU, whatever the settings ask for.

    >>> [faiss_factory(count, 256, IndexesSettings()) for count in (199_999, 200_000, 1_000_000)]
    ['Flat', 'IVF223,PQ128x4fs_64', 'IVF500,PQ128x4fs_64']
    >>> [faiss_factory(count, 256, IndexesSettings(), gpu=True) for count in (200_000, 2_000_000, 30_000_000)]
    ['IVF1788,SQ8', 'IVF5656,SQ8', 'IVF12648,SQ8']
    >>> faiss_factory(60_000, 256, IndexesSettings(faiss_graph_from=50_000))
    'HNSW32,SQ8'
    >>> [faiss_factory(count, 256, IndexesSettings()) for count in (2_000_000, 30_000_000)]
    ['IVF16384_HNSW32,SQ8', 'IVF16384_HNSW32,RaBitQ,Refine(SQ8)']

    Args:
        count: Number of vectors.
        dim: Their dimension.
        settings: Settings of the indexes.
        gpu: Choose an index that a GPU can train and fill, see `builds_on_gpu`.

    Returns:
        The factory string.
    """
    if settings.faiss_factory != AUTO:
        return settings.faiss_factory
    if count < settings.faiss_graph_from:
        return EXACT
    parts = faiss_parts(count, settings)
    if gpu:
        return f"IVF{min(_MOST_LISTS, 4 * isqrt(count // parts))},SQ8"
    if count < settings.faiss_lists_from:
        return "HNSW32,SQ8"
    if count < settings.faiss_coarse_from:
        # Two components of a vector take four bits, and 64 vectors are compared at a time.
        return f"IVF{isqrt(count) // 2},PQ{dim // 2}x4fs_64" if dim % 2 == 0 else f"IVF{4 * isqrt(count)},SQ8"
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
    vectors: NDArray[np.float32] | VectorTable,
    factory: str,
    *,
    training: int = _TRAINING_VECTORS,
    gpu: bool = False,
) -> DeviceUse:
    """Write an index.

    One thread builds and trains, with a fixed seed and sample: the same vectors give the same bytes, on a CPU. Where a
    GPU is asked for and cannot do it, all cores do, which gives a graph other bytes every time, as a GPU would.

    Args:
        file: File to write.
        chunk_ids: Ids, (n,) int64.
        vectors: (n, d) float32, unit norm, mapped or not; similarity is their inner product.
        factory: FAISS factory string.
        training: Vectors to train on, unless FAISS needs more.
        gpu: Train and fill the index on a GPU, if possible; an exact one has nothing to train.

    Returns:
        The device that trained and filled it, with the reason when it is not the GPU that was asked for.

    Raises:
        InvalidArgumentError: FAISS does not accept the factory string for this data.
    """
    import faiss

    work = f"building {factory} of {len(vectors):,} vectors"
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        base = faiss.index_factory(vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
        index = faiss.IndexIDMap2(base)
        trains = gpu and not isinstance(faiss.downcast_index(base), faiss.IndexFlat)
        built, problem = _build_on_gpu(base, vectors, training) if trains else (None, "")
        use = DeviceUse(work, "cuda:0" if built is not None else "cpu", gpu)
        if built is None:
            if problem:
                cores = available_cores()
                faiss.omp_set_num_threads(cores)
                use = DeviceUse(work, f"cpu ({cores} threads)", gpu, problem)
            _train_and_add(base, base, vectors, training)
        filled = base if built is None else built
        index.index, index.ntotal, index.is_trained = filled, filled.ntotal, True
        faiss.copy_array_to_vector(np.ascontiguousarray(chunk_ids, np.int64), index.id_map)
        faiss.write_index(index, str(file))
    except RuntimeError as error:
        raise _unusable(factory, len(vectors), vectors.shape[1], error) from error
    finally:
        faiss.omp_set_num_threads(threads)
    return use


def _build_on_gpu(
    base: faiss.Index, vectors: NDArray[np.float32] | VectorTable, training: int
) -> tuple[faiss.Index | None, str]:
    """Train and fill a copy of an index on a GPU.

    Args:
        base: Empty index of the CPU, which stays empty.
        vectors: (n, d) float32.
        training: Vectors to train on, unless FAISS needs more.

    Returns:
        The index, back on the CPU, and ""; or None and the reason for having none.
    """
    import faiss

    if problem := gpu_problem():
        return None, problem
    if faiss.try_extract_index_ivf(base) is None:
        return None, "a GPU trains and fills IVF indexes only"
    copied, problem = copy_to_gpu(base)
    if copied is None:
        return None, problem
    try:
        _train_and_add(copied, base, vectors, training)
        return on_cpu(copied), ""
    except RuntimeError as error:
        return None, f"the GPU gave up ({last_line(error)})"


def _train_and_add(
    worker: faiss.Index, base: faiss.Index, vectors: NDArray[np.float32] | VectorTable, training: int
) -> None:
    """Train an index and fill it; ``base`` is the index of the CPU that ``worker`` is, or is a copy of."""
    import faiss

    if not worker.is_trained:
        ivf = faiss.try_extract_index_ivf(base)
        wanted = max(training, _TRAINING_PER_LIST * (ivf.nlist if ivf is not None else 0))
        sample = np.random.default_rng(_SEED).permutation(len(vectors))[:wanted]
        worker.train(np.ascontiguousarray(vectors[np.sort(sample)]))
    for start in range(0, len(vectors), _BLOCK):
        worker.add(np.ascontiguousarray(vectors[start : start + _BLOCK]))


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
