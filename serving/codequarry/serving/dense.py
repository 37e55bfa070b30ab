"""The dense channels: inner product of unit vectors on FAISS, each with its query encoder of the bundle."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.faiss_gpu import DISABLED
from codequarry.schemas.faiss_tuning import POOL, FaissTuning, read_tuning
from codequarry.schemas.layout import DENSE_LEGS, BundlePaths
from codequarry.schemas.manifest import LegEntry
from codequarry.serving.channels import Candidates, ranked
from codequarry.serving.deadline import Deadline
from codequarry.serving.faiss_gpu import GpuCopy
from codequarry.serving.faiss_search import (
    USUAL,
    Bounds,
    Effort,
    bounds_of,
    clamps,
    found_rows,
    parameters,
    selector_of,
)
from codequarry.serving.query_encoder import LazyEncoder
from codequarry.serving.trace import stage

if TYPE_CHECKING:
    import faiss

_SCAN = 4096
"""Up to this many allowed chunks, scoring all of them exactly beats a filtered walk of a graph or of lists."""


class FaissChannel:
    """Nearest neighbours of the query's vector."""

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
        """shards: at least one; their rows are numbered through.

        vectors: (n, d) float32 in the order of the rows, when the index is not exact and they are there.
        tuning: of an index that is not exact. gpu: search a copy there, where that can be.

        Raises UnavailableError: the index cannot be brought to the operating point of its tuning.
        """
        import faiss

        self.name = name
        self.source = source
        # Searched without its id map, so that filters are bitmaps over rows for every kind of index; the map owns it.
        self._mapped = list(shards)
        self._shards = [faiss.downcast_index(shard.index) for shard in shards]
        ids = [faiss.vector_to_array(shard.id_map) for shard in shards]
        self._chunk_ids = np.concatenate(ids)
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
        """Within which a query may set the parameters that this index has."""

    @classmethod
    def open(cls, paths: BundlePaths, leg: LegEntry, chunks: int, encoder: LazyEncoder, *, gpu: bool = False) -> Self:
        """Map a leg's FAISS index. paths: with the files of the leg. chunks: how many it has to hold.

        gpu: search a copy on the GPU, where that can be.

        Raises UnavailableError: FAISS cannot read it, or it is not the index the manifest describes.
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

    def search(
        self,
        query: str,
        limit: int,
        *,
        allowed: np.ndarray | None,
        rerank: bool,
        deadline: Deadline | None = None,
        effort: Effort = USUAL,
    ) -> Candidates:
        """See `Channel.search`. Waits for the encoder when it is still being opened.

        effort: what this query sets otherwise than the operating point of the index.
        """
        with stage(f"{self.name}_encode"):
            vector = self._encoder.encode(query)
        rows = None if allowed is None else np.flatnonzero(np.isin(self._chunk_ids, allowed, assume_unique=True))
        if not len(self._chunk_ids) or (rows is not None and not len(rows)):
            return Candidates(np.empty(0, np.int64), np.empty(0, np.float32), vector=vector)
        if rows is not None and self._vectors is not None and len(rows) <= _SCAN:
            with stage("faiss_refine"):
                found = ranked(self._chunk_ids[rows], self._vectors[rows] @ vector, limit)
        else:
            refined = rerank and self._vectors is not None
            with stage("faiss_ann"):
                rows, scores = self._neighbours(vector, max(limit, POOL) if refined else limit, rows, effort)
            if refined:
                assert self._vectors is not None
                with stage("faiss_refine"):
                    scores = self._vectors[rows] @ vector
            found = ranked(self._chunk_ids[rows], scores, limit)
        return replace(found, vector=vector, notes=(*self._notes, *clamps(effort, self.bounds)))

    def problem(self) -> str | None:
        """Why the encoder could not be opened, once that is known."""
        return self._encoder.problem()

    def close(self) -> None:
        """Wait for the encoder's opening and drop the maps."""
        self._encoder.wait()
        del self._flat, self._gpu, self._together, self._shards, self._mapped, self._vectors

    def _neighbours(
        self, vector: np.ndarray, limit: int, rows: np.ndarray | None, effort: Effort
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows (m,) int64 and scores (m,) float32 of the nearest vectors, of each shard or of all of them, among
        ``rows`` when given."""
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
    """(n, d) float32: the vectors of an exact index where they lie; valid as long as the index."""
    import faiss

    flat: Any = index
    return faiss.rev_swig_ptr(flat.get_xb(), index.ntotal * index.d).reshape(index.ntotal, index.d)


def _similarities(shards: Sequence[np.ndarray], vector: np.ndarray) -> np.ndarray:
    """(n,) float32: inner products with all rows, as FAISS computes them.

    One pass without FAISS's search, which keeps the best of each shard in order: half of the time over 32 shards.
    """
    import faiss

    kernels: Any = faiss
    found = np.empty(sum(map(len, shards)), np.float32)
    at = 0
    for rows in shards:
        if len(rows):
            pointers = map(faiss.swig_ptr, (found[at:], vector, rows))
            kernels.fvec_inner_products_ny(*pointers, len(vector), len(rows))
        at += len(rows)
    return found


def _best(scores: np.ndarray, limit: int, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Rows and scores of the best of all, and of all that equal the last of them. rows: only these."""
    rows = np.arange(len(scores)) if rows is None else rows
    own = scores[rows]
    if len(own) > limit:
        least = np.partition(own, len(own) - limit)[len(own) - limit]
        rows = rows[own >= least]
    return rows, scores[rows]


def _nearest(
    index: faiss.Index, vector: np.ndarray, limit: int, rows: np.ndarray | None, effort: Effort
) -> tuple[np.ndarray, np.ndarray]:
    """As `FaissChannel._neighbours`, of one shard."""
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
    """One index over the rows of all shards, which are searched at the same time, each on a thread of its own.

    None for several exact ones: they are small, and only merged by score and id do equal vectors keep their order.
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
    """The mapped vectors, or None when the version has none or not those of the index."""
    if not paths.vectors.is_file():
        return None
    try:
        vectors = np.load(paths.vectors, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError) as error:
        raise UnavailableError("the stored vectors cannot be read") from error
    if vectors.shape != (rows, dim) or vectors.dtype != np.float32:
        raise UnavailableError(
            f"the stored vectors are {vectors.shape} {vectors.dtype}, expected ({rows}, {dim}) float32"
        )
    return vectors


def source_name(factory: str, channel: str = DENSE_LEGS[0]) -> str:
    """A FAISS factory string as the answer names it.

    >>> source_name("Flat"), source_name("IVF1024,SQ8"), source_name("HNSW32,SQ8"), source_name("OPQ16,IVF64,PQ16x4fs")
    ('faiss_flat', 'faiss_ivf_sq8', 'faiss_hnsw_sq8', 'faiss_opq_ivf_pq')
    """
    parts = [re.sub(r"^(ivf|hnsw|opq|pq|pca|nsg)\d.*", r"\1", part) for part in factory.lower().split(",")]
    return f"{channel}_" + "_".join(re.sub(r"[^a-z0-9]", "", part) for part in parts)
