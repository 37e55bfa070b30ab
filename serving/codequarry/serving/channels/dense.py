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
from codequarry.schemas.bundle.manifest import LegEntry, Manifest
from codequarry.schemas.errors import UnavailableError
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
from codequarry.serving.channels.vector_table import VectorTable, exact_indexes, flat_copy
from codequarry.serving.request.trace import stage

if TYPE_CHECKING:
    import faiss

_SCAN = 4096
"""Up to this many allowed chunks, scoring all of them exactly beats a filtered walk of a graph or of lists."""
_MARGIN = 24
"""Neighbours that every shard of an exact index is asked for beyond its share."""
_MORE = 4
"""Factor by which a shard is asked for more, when all that it returned are among the best."""


class DenseChannel(Channel):
    """Channel of vectors."""

    bounds: Bounds
    """Bounds of the parameters that a query may set for this index."""


class FaissChannel(DenseChannel):
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
        vectors: VectorTable | np.ndarray | None = None,
        tuning: FaissTuning | None = None,
        gpu: bool = False,
    ) -> None:
        """Use open shards of an index.

        Args:
            shards: At least one; their rows are numbered consecutively.
            encoder: Encoder of the queries.
            source: Short name of the index.
            name: Name of the channel.
            vectors: (n, d) float32 in the order of the rows, when the index is not exact.
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
        exact = vectors is None and all(
            isinstance(shard, (faiss.IndexFlat, faiss.IndexScalarQuantizer)) for shard in self._shards
        )
        if tuning is not None:
            _apply(tuning, self._shards)
        self._gpu = GpuCopy.of([flat_copy(shard) for shard in self._shards]) if gpu else None
        self._notes = (DISABLED,) if gpu and self._gpu is None else ()
        self._together = None if exact else _together(self._shards)
        self.bounds = bounds_of(self._shards[0], tuning)

    @classmethod
    def open(
        cls,
        paths: BundlePaths,
        leg: LegEntry,
        manifest: Manifest,
        chunk_ids: np.ndarray,
        encoder: LazyEncoder,
        *,
        gpu: bool = False,
    ) -> Self:
        """Map a dense index and its vectors.

        Args:
            paths: Paths of the version with the files of the index.
            leg: Manifest entry of the index.
            manifest: Manifest of the version, which promises the number of vectors.
            chunk_ids: The id map, (n,) int64.
            encoder: Encoder of the queries.
            gpu: Search a copy on the GPU if possible.

        Returns:
            The open channel.

        Raises:
            UnavailableError: FAISS cannot read the index, or it is not the one that the manifest describes.
        """
        dim, chunks, exact = leg.encoder.dim, manifest.own_counts.chunks, leg.faiss.exact
        vectors = VectorTable.open(paths, manifest, dim)
        if exact:
            shards = exact_indexes(vectors, chunk_ids)
        else:
            shards = [_read_shard(file, dim) for file in paths.faiss_indexes()]
        count = sum(shard.index.ntotal for shard in shards)
        if {count, len(vectors)} != {chunks} or not shards:
            raise UnavailableError(f"the index holds {count} vectors and its table {len(vectors)}, expected {chunks}")
        return cls(
            shards,
            encoder,
            source=source_name(leg.faiss.factory, leg.channel),
            name=leg.channel,
            vectors=None if exact else vectors,
            tuning=None if exact else read_tuning(paths.tuning),
            gpu=gpu,
        )

    def _rank(self, asked: ChannelQuery) -> Candidates:
        limit, allowed, effort = asked.limit, asked.allowed, asked.effort
        vector = self.encode(asked.query.text)
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

    def encode(self, text: str) -> np.ndarray:
        """Return the vector of a query: (d,) float32; waits for the encoder while it is being opened."""
        with stage(f"{self.name}_encode"):
            return self._encoder.encode(text)

    def problem(self) -> str | None:
        """Return the reason why the encoder could not be opened, once that is known."""
        return self._encoder.problem()

    def counts(self) -> dict[str, int]:
        """Return the number of vectors, and of the ids that they are mapped to."""
        return dict(self._counts)

    def _release(self) -> None:
        self._encoder.wait()
        del self._gpu, self._together, self._shards, self._mapped, self._vectors

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
        if self._together is None:
            return _best(self._shards, self._by_shard(rows), vector, limit)
        if rows is None:
            params = None if within == USUAL else parameters(self._shards[0], within)
            return found_rows(*self._together.search(vector[None, :], limit, params=params))
        found = [
            _nearest(shard, vector, limit, own, within)
            for shard, own in zip(self._shards, self._by_shard(rows), strict=True)
        ]
        own = [each[0] + start for each, start in zip(found, self._starts, strict=False)]
        return np.concatenate(own), np.concatenate([each[1] for each in found])

    def _by_shard(self, rows: np.ndarray | None) -> list[np.ndarray | None]:
        """Return, for each shard, which of its own rows are among ``rows``; None for all."""
        if rows is None:
            return [None] * len(self._shards)
        return [rows[(rows >= start) & (rows < end)] - start for start, end in pairwise(self._starts)]


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


def _best(
    shards: Sequence[faiss.Index], rows: Sequence[np.ndarray | None], vector: np.ndarray, limit: int
) -> tuple[np.ndarray, np.ndarray]:
    """Find the best of an exact index, including all that tie with the last of them.

    Each shard is asked for its share and some more, and again where that may not be all. So a version in shards answers
    like one without, at the cost of few comparisons more.

    Args:
        shards: Exact indexes.
        rows: The rows that count, by shard; None for all of a shard.
        vector: (d,) float32.
        limit: Number of the best, without ties.

    Returns:
        Rows over all shards (m,) int64, and their scores (m,) float32.
    """
    totals = [shard.ntotal if own is None else len(own) for shard, own in zip(shards, rows, strict=True)]
    wanted = [min(total, 2 * limit // len(shards) + _MARGIN) for total in totals]
    found = [_nearest(*each, USUAL) for each in zip(shards, [vector] * len(shards), wanted, rows, strict=True)]
    while True:
        scores = np.concatenate([each[1] for each in found])
        least = np.partition(scores, len(scores) - limit)[len(scores) - limit] if len(scores) > limit else -np.inf
        short = [
            number
            for number, (each, asked, total) in enumerate(zip(found, wanted, totals, strict=True))
            if asked == len(each[1]) < total and each[1][-1] >= least
        ]
        if not short:
            break
        for number in short:
            wanted[number] = min(totals[number], _MORE * wanted[number])
            found[number] = _nearest(shards[number], vector, wanted[number], rows[number], USUAL)
    starts = np.cumsum([0, *(shard.ntotal for shard in shards[:-1])])
    numbers = np.concatenate([each[0] + start for each, start in zip(found, starts, strict=True)])
    best = scores >= least
    return numbers[best], scores[best]


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


def _together(shards: list[faiss.Index]) -> faiss.Index:
    """Combine all files of an approximate index into one that searches them in parallel, one thread each."""
    import faiss

    if len(shards) == 1:
        return shards[0]
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


def source_name(factory: str, channel: str = DENSE_LEGS[0]) -> str:
    """Return a FAISS factory string as answers name it.

    >>> source_name("Flat"), source_name("IVF1024,SQ8"), source_name("HNSW32,SQ8"), source_name("OPQ16,IVF64,PQ16x4fs")
    ('faiss_flat', 'faiss_ivf_sq8', 'faiss_hnsw_sq8', 'faiss_opq_ivf_pq')
    """
    parts = [re.sub(r"^(ivf|hnsw|opq|pq|pca|nsg)\d.*", r"\1", part) for part in factory.lower().split(",")]
    return f"{channel}_" + "_".join(re.sub(r"[^a-z0-9]", "", part) for part in parts)
