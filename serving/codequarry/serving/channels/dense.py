"""Dense channels: inner product of unit vectors on FAISS, each with its query encoder of the bundle."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from codequarry.schemas.bundle.faiss_tuning import POOL, FaissTuning, read_tuning
from codequarry.schemas.bundle.layout import DENSE_LEGS, BundlePaths
from codequarry.schemas.bundle.manifest import LegEntry
from codequarry.schemas.errors import IntegrityError, UnavailableError
from codequarry.serving.channels.base import NOTHING, Candidates, Channel, ChannelQuery, ranked
from codequarry.serving.channels.faiss_search import (
    USUAL,
    Bounds,
    Effort,
    bounds_of,
    clamps,
    found_rows,
    parameters,
    selector_of,
)
from codequarry.serving.channels.gpu import DISABLED, GpuCopy
from codequarry.serving.channels.query_encoder import LazyEncoder
from codequarry.serving.files.arrays import map_array
from codequarry.serving.request.trace import stage

if TYPE_CHECKING:
    import faiss

_SCAN = 4096
"""Up to this many allowed chunks, scoring all of them exactly beats a filtered walk of a graph or of lists."""


class FaissChannel(Channel):
    """Dense channel that returns the nearest neighbours of the query's vector.

    A search waits for the encoder while it is being opened.
    """

    def __init__(
        self,
        shards: Sequence[faiss.IndexIDMap2],
        encoder: LazyEncoder,
        *,
        source: str,
        name: str = DENSE_LEGS[0],
        vectors: np.ndarray | None = None,
        tuning: FaissTuning | None = None,
        gpu: bool = False,
    ) -> None:
        """Use open shards of an index.

        Args:
            shards: At least one; their rows are numbered consecutively.
            encoder: Encoder of the queries.
            source: Short name of the index.
            name: Name of the channel.
            vectors: (n, d) float32 in the order of the rows, when the index is not exact and they are stored.
            tuning: Operating point of an index that is not exact.
            gpu: Search a copy on the GPU if possible.

        Raises:
            UnavailableError: The index cannot be brought to the operating point of its tuning.
        """
        import faiss

        self.name = name
        self.source = source
        # Search below the id map, so that filters are bitmaps over rows for every kind of index; the map owns it.
        self._mapped = list(shards)
        self._shards = [faiss.downcast_index(shard.index) for shard in shards]
        ids = [faiss.vector_to_array(shard.id_map) for shard in shards]
        self._chunk_ids = np.concatenate(ids)
        self._counts = {"vectors": sum(shard.ntotal for shard in self._shards), "id_map": len(self._chunk_ids)}
        self._starts = np.cumsum([0, *map(len, ids)]).tolist()
        self._encoder = encoder
        self._vectors = vectors
        exact = all(isinstance(shard, faiss.IndexFlat) for shard in self._shards)
        self._flat = [_rows_of(shard) for shard in self._shards] if exact else None
        if tuning is not None:
            _apply(tuning, self._shards)
        self._gpu = GpuCopy.of(self._shards) if gpu else None
        self._notes = (DISABLED,) if gpu and self._gpu is None else ()
        self._together = None if exact else _together(self._shards)
        self.bounds: Bounds = bounds_of(self._shards[0], tuning)
        """Bounds of the parameters that a query may set for this index."""

    @classmethod
    def open(cls, paths: BundlePaths, leg: LegEntry, chunks: int, encoder: LazyEncoder, *, gpu: bool = False) -> Self:
        """Map the FAISS index of a dense index.

        Args:
            paths: Paths of the version with the files of the index.
            leg: Manifest entry of the index.
            chunks: Number of vectors that it must hold.
            encoder: Encoder of the queries.
            gpu: Search a copy on the GPU if possible.

        Returns:
            The open channel.

        Raises:
            UnavailableError: FAISS cannot read the index, or it is not the one that the manifest describes.
        """
        dim = leg.encoder.dim
        shards = [_read_shard(file, dim) for file in paths.faiss_indexes()]
        count = sum(shard.ntotal for shard in shards)
        if count != chunks or not shards:
            raise UnavailableError(f"the index holds {count} vectors, expected {chunks}")
        return cls(
            shards,
            encoder,
            source=source_name(leg.faiss.factory, leg.channel),
            name=leg.channel,
            vectors=None if leg.faiss.exact else _stored_vectors(paths, count, dim),
            tuning=None if leg.faiss.exact else read_tuning(paths.tuning),
            gpu=gpu,
        )

    def _rank(self, asked: ChannelQuery) -> Candidates:
        limit, allowed, effort = asked.limit, asked.allowed, asked.effort
        with stage(f"{self.name}_encode"):
            vector = self._encoder.encode(asked.query.text)
        rows = None if allowed is None else np.flatnonzero(np.isin(self._chunk_ids, allowed, assume_unique=True))
        if not len(self._chunk_ids) or (rows is not None and not len(rows)):
            return replace(NOTHING, vector=vector)
        if rows is not None and self._vectors is not None and len(rows) <= _SCAN:
            with stage("faiss_refine"):
                found = ranked(self._chunk_ids[rows], self._vectors[rows] @ vector, limit)
        else:
            refined = asked.rerank and self._vectors is not None
            with stage("faiss_ann"):
                rows, scores = self._neighbours(vector, max(limit, POOL) if refined else limit, rows, effort)
            if refined:
                assert self._vectors is not None
                with stage("faiss_refine"):
                    scores = self._vectors[rows] @ vector
            found = ranked(self._chunk_ids[rows], scores, limit)
        return replace(found, vector=vector, notes=(*self._notes, *clamps(effort, self.bounds)))

    def problem(self) -> str | None:
        """Return the reason why the encoder could not be opened, once that is known."""
        return self._encoder.problem()

    def counts(self) -> dict[str, int]:
        """Return the number of vectors, and of the ids that they are mapped to."""
        return dict(self._counts)

    def _release(self) -> None:
        self._encoder.wait()
        del self._flat, self._gpu, self._together, self._shards, self._mapped, self._vectors

    def _neighbours(
        self, vector: np.ndarray, limit: int, rows: np.ndarray | None, effort: Effort
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the nearest vectors, in each shard or in all of them, among ``rows`` when given.

        Rows are (m,) int64, scores (m,) float32.
        """
        import faiss

        # One request, one core: OpenMP would start a team per worker thread. The setting belongs to the calling thread.
        faiss.omp_set_num_threads(1)
        within = effort.within(self.bounds)
        if rows is None and within == USUAL and self._gpu is not None:
            return self._gpu.search(vector, limit)
        if self._flat is not None:
            return _best(_similarities(self._flat, vector), limit, rows)
        if rows is None and self._together is not None:
            params = None if within == USUAL else parameters(self._shards[0], within)
            return found_rows(*self._together.search(vector[None, :], limit, params=params))
        found = [
            _nearest(
                shard, vector, limit, None if rows is None else rows[(rows >= start) & (rows < end)] - start, within
            )
            for shard, (start, end) in zip(self._shards, pairwise(self._starts), strict=True)
        ]
        own = [each[0] + start for each, start in zip(found, self._starts, strict=False)]
        return np.concatenate(own), np.concatenate([each[1] for each in found])


def _read_shard(file: Path, dim: int) -> faiss.IndexIDMap2:
    import faiss

    try:
        outer = faiss.read_index(str(file), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        raise UnavailableError("FAISS cannot read the index") from error
    if not isinstance(outer, faiss.IndexIDMap2) or outer.d != dim:
        raise UnavailableError(
            f"the index is {type(outer).__name__} of dimension {outer.d}, expected IndexIDMap2 of {dim}"
        )
    return outer


def _rows_of(index: faiss.Index) -> np.ndarray:
    """Return the vectors of an exact index without a copy: (n, d) float32, valid as long as the index."""
    import faiss

    flat: Any = index
    return faiss.rev_swig_ptr(flat.get_xb(), index.ntotal * index.d).reshape(index.ntotal, index.d)


def _similarities(shards: Sequence[np.ndarray], vector: np.ndarray) -> np.ndarray:
    """Return inner products with all rows: (n,) float32.

    A row has the same bits wherever it lies, which BLAS does not promise: a version in shards answers like one without.
    """
    found = np.empty(sum(map(len, shards)), np.float32)
    at = 0
    for rows in shards:
        np.einsum("ij,j->i", rows, vector, out=found[at : at + len(rows)])
        at += len(rows)
    return found


def _best(scores: np.ndarray, limit: int, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and scores of the best, including all that tie with the last of them.

    Args:
        scores: (n,) float32.
        limit: Number of the best, without ties.
        rows: Only these rows; None for all.

    Returns:
        Rows and their scores.
    """
    rows = np.arange(len(scores)) if rows is None else rows
    own = scores[rows]
    if len(own) > limit:
        least = np.partition(own, len(own) - limit)[len(own) - limit]
        rows = rows[own >= least]
    return rows, scores[rows]


def _nearest(
    index: faiss.Index, vector: np.ndarray, limit: int, rows: np.ndarray | None, effort: Effort
) -> tuple[np.ndarray, np.ndarray]:
    """Find the nearest vectors of one shard, like `FaissChannel._neighbours`."""
    count = min(limit, index.ntotal if rows is None else len(rows))
    if not count:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    if rows is None:
        return found_rows(*index.search(vector[None, :], count))
    mask = np.zeros(index.ntotal, np.bool_)
    mask[rows] = True
    params = parameters(index, effort, selector_of(mask))
    return found_rows(*index.search(vector[None, :], count, params=params))


def _together(shards: list[faiss.Index]) -> faiss.Index | None:
    """Combine all shards into one index that searches them in parallel, one thread each.

    Returns None for several exact shards: they are small, and equal vectors keep their order only when the shards are
    merged by score and id.
    """
    import faiss

    if len(shards) == 1:
        return shards[0]
    if isinstance(shards[0], faiss.IndexFlat):
        return None
    kinds: Any = faiss  # the stubs know another signature
    whole = kinds.IndexShards(shards[0].d, True, True)
    for shard in shards:
        whole.add_shard(shard)
    return whole


def _apply(tuning: FaissTuning, shards: list[faiss.Index]) -> None:
    """Bring an index to the operating point that was chosen for it."""
    import faiss

    for shard in shards if tuning.chosen.parameters else ():
        try:
            faiss.ParameterSpace().set_index_parameters(shard, tuning.chosen.parameters)
        except RuntimeError as error:
            raise UnavailableError(
                f"the index has no operating point {tuning.chosen.parameters}; build the bundle again"
            ) from error


def _stored_vectors(paths: BundlePaths, rows: int, dim: int) -> np.ndarray | None:
    """Map the stored vectors; None when the version has none or they do not belong to the index."""
    if not paths.vectors.is_file():
        return None
    try:
        vectors = map_array(paths.vectors)
    except (OSError, IntegrityError) as error:
        raise UnavailableError("the stored vectors cannot be read") from error
    if vectors.shape != (rows, dim) or vectors.dtype != np.float32:
        raise UnavailableError(
            f"the stored vectors are {vectors.shape} {vectors.dtype}, expected ({rows}, {dim}) float32"
        )
    return vectors


def source_name(factory: str, channel: str = DENSE_LEGS[0]) -> str:
    """Return a FAISS factory string as answers name it.

    >>> source_name("Flat"), source_name("IVF1024,SQ8"), source_name("HNSW32,SQ8"), source_name("OPQ16,IVF64,PQ16x4fs")
    ('faiss_flat', 'faiss_ivf_sq8', 'faiss_hnsw_sq8', 'faiss_opq_ivf_pq')
    """
    parts = [re.sub(r"^(ivf|hnsw|opq|pq|pca|nsg)\d.*", r"\1", part) for part in factory.lower().split(",")]
    return f"{channel}_" + "_".join(re.sub(r"[^a-z0-9]", "", part) for part in parts)
