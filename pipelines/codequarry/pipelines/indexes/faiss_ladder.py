"""Choice of a version's dense index: the rung of a ladder by its size, or what the settings name."""

from __future__ import annotations

from math import ceil, isqrt

from codequarry.schemas.settings.indexes import AUTO, IndexesSettings

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
