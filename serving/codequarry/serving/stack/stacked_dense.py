"""Dense channel of a delta version and its base: the base's index, and the few vectors of the delta beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codequarry.serving.catalog.filters import members
from codequarry.serving.channels.base import Candidates, ChannelQuery
from codequarry.serving.channels.dense import DenseChannel, FaissChannel
from codequarry.serving.channels.vector_table import VectorTable, exact_indexes
from codequarry.serving.stack.overlay import StackArrays
from codequarry.serving.stack.stacked_channels import merge, search_base

if TYPE_CHECKING:
    import faiss


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
        found = search_base(self._base, asked, self._hidden)
        if found.vector is None:
            return found
        return merge(found, *self._nearest(found.vector, asked), asked.limit)

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
