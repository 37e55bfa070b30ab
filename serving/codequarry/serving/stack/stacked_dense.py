"""Dense channel of a delta version and its base: the base's index, and the few vectors of the delta beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from codequarry.serving.catalog.filters import members
from codequarry.serving.channels.base import Candidates, ChannelQuery, ranked
from codequarry.serving.channels.dense import DenseChannel, FaissChannel
from codequarry.serving.channels.vector_table import VectorTable, exact_indexes
from codequarry.serving.stack.overlay import StackArrays

if TYPE_CHECKING:
    import faiss

_SPARE = 64
"""Neighbours that the base is asked for beyond the limit at first, where it has so many hidden chunks."""
_MORE = 4
"""Factor by which it is asked for more, when too many of its neighbours are hidden."""


class StackedDense(DenseChannel):
    """Dense channel that merges the neighbours of the base with all vectors of the delta, which it compares exactly."""

    def __init__(self, base: FaissChannel, vectors: VectorTable, stack: StackArrays) -> None:
        """Put vectors over a channel.

        Args:
            base: Channel of the base; it stays the base's.
            vectors: Vectors of the delta.
            stack: How the delta lies over the base.
        """
        self.name, self.source, self.bounds = base.name, base.source, base.bounds
        self._base, self._ids, self._hidden = base, stack.own_ids, stack.hidden_chunks
        self._own: list[faiss.IndexIDMap2] = exact_indexes(vectors, stack.own_ids)

    def problem(self) -> str | None:
        """Return the reason why the base's channel cannot answer, as far as it is known now."""
        return self._base.problem()

    def counts(self) -> dict[str, int]:
        """Return the number of vectors that count, and of the ids that they are mapped to."""
        more = len(self._ids) - self._hidden.rows
        return {name: count + more for name, count in self._base.counts().items()}

    def _rank(self, asked: ChannelQuery) -> Candidates:
        gone = len(self._hidden.ids)
        wanted = asked.limit + min(gone, _SPARE)
        while True:
            found = self._base.search(replace(asked, limit=wanted))
            kept = ~members(found.chunk_ids, self._hidden.ids)
            if len(found.chunk_ids) < wanted or kept.sum() >= asked.limit or wanted >= asked.limit + gone:
                break
            wanted = min(_MORE * wanted, asked.limit + gone)
        ids, scores = found.chunk_ids[kept], found.scores[kept]
        if found.vector is None:
            return found
        own, own_scores = self._nearest(found.vector, asked)
        again = np.isin(ids, own, assume_unique=True)
        best = ranked(np.concatenate([ids[~again], own]), np.concatenate([scores[~again], own_scores]), asked.limit)
        return replace(found, chunk_ids=best.chunk_ids, scores=best.scores)

    def _nearest(self, vector: np.ndarray, asked: ChannelQuery) -> tuple[np.ndarray, np.ndarray]:
        """Return the delta's chunks that may be returned, and their scores: (m,) int64 and (m,) float32."""
        found = [
            (ids[0], scores[0])
            for index in self._own
            if index.ntotal
            for scores, ids in [index.search(vector[None, :], index.ntotal)]
        ]
        ids = np.concatenate([np.empty(0, np.int64), *(one for one, _ in found)])
        scores = np.concatenate([np.empty(0, np.float32), *(one for _, one in found)])
        if asked.allowed is not None:
            kept = members(ids, asked.allowed)
            ids, scores = ids[kept], scores[kept]
        return ids, scores

    def _release(self) -> None:
        del self._own
