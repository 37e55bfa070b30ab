"""Channels whose scores need no statistics, over a delta version and its base: each index is asked, and both merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from codequarry.schemas.wire.search import ImpactTerm, TokenPair
from codequarry.serving.catalog.catalog import ChunkRow, DefinitionSpan
from codequarry.serving.catalog.filters import members
from codequarry.serving.channels.base import Candidates, Channel, ChannelQuery, Hidden, ranked
from codequarry.serving.channels.splade import SparseChannel, SpladeChannel
from codequarry.serving.channels.warp.channel import LateChannel, WarpChannel
from codequarry.serving.stack.overlay import StackArrays
from codequarry.serving.text.query_classes import Query

_SPARE = 64
"""Candidates that the base is asked for beyond the limit at first, where it has so many hidden chunks."""
_MORE = 4
"""Factor by which it is asked for more, when too many of its candidates are hidden."""

ChannelT = TypeVar("ChannelT", bound=Channel)


def search_base(base: Channel, asked: ChannelQuery, hidden: Hidden) -> Candidates:
    """Rank the chunks of a base that still count.

    Args:
        base: Channel of the base.
        asked: Query, filter, deadline and options.
        hidden: Chunks of the base that count no longer.

    Returns:
        At least as many candidates as are asked for, where there are so many.
    """
    gone = len(hidden.ids)
    wanted = asked.limit + min(gone, _SPARE)
    while True:
        found = base.search(replace(asked, limit=wanted))
        kept = ~members(found.chunk_ids, hidden.ids)
        if len(found.chunk_ids) < wanted or kept.sum() >= asked.limit or wanted >= asked.limit + gone:
            return replace(found, chunk_ids=found.chunk_ids[kept], scores=found.scores[kept])
        wanted = min(_MORE * wanted, asked.limit + gone)


def merge(base: Candidates, ids: np.ndarray, scores: np.ndarray, limit: int) -> Candidates:
    """Return the best candidates of a base and of the delta over it.

    Args:
        base: Candidates of the base.
        ids: (m,) int64, those of the delta. A chunk that both have counts once.
        scores: (m,) float32, their scores.
        limit: Most candidates.

    Returns:
        Candidates, with what else the base says.
    """
    new = ~np.isin(base.chunk_ids, ids, assume_unique=True)
    best = ranked(np.concatenate([base.chunk_ids[new], ids]), np.concatenate([base.scores[new], scores]), limit)
    return replace(base, chunk_ids=best.chunk_ids, scores=best.scores)


class _Stacked(Channel, Generic[ChannelT]):
    """Channel of a base, and one of the chunks of a delta by themselves."""

    def __init__(self, base: ChannelT, own: ChannelT, stack: StackArrays) -> None:
        """Put an index over a channel.

        Args:
            base: Channel of the base; it stays the base's.
            own: Channel of the delta's chunks.
            stack: How the delta lies over the base.
        """
        self.name, self.source = base.name, base.source
        self._base, self._own, self._hidden = base, own, stack.hidden_chunks
        self._own_ids = stack.own.directory.chunk_ids

    def problem(self) -> str | None:
        """Return the reason why one of the two cannot answer, as far as it is known now."""
        return self._base.problem() or self._own.problem()

    def counts(self) -> dict[str, int]:
        """Return the number of documents that count."""
        own = self._own.counts()
        return {name: count + own[name] - self._hidden.rows for name, count in self._base.counts().items()}

    def _rank(self, asked: ChannelQuery) -> Candidates:
        own = self._own.search(asked)
        return merge(search_base(self._base, asked, self._hidden), own.chunk_ids, own.scores, asked.limit)

    def _channel_of(self, row: ChunkRow) -> ChannelT:
        return self._own if members(np.array([row.chunk_id]), self._own_ids).any() else self._base

    def _release(self) -> None:
        self._own.close()


class StackedSplade(_Stacked[SpladeChannel], SparseChannel):
    """Learned sparse channel of a stack."""

    def explain(self, query: Query, row: ChunkRow) -> list[ImpactTerm]:
        return self._channel_of(row).explain(query, row)


class StackedWarp(_Stacked[WarpChannel], LateChannel):
    """Late-interaction channel of a stack."""

    def rescore(self, asked: ChannelQuery, chunk_ids: NDArray[np.int64]) -> NDArray[np.float32]:
        own = self._own.rescore(asked, chunk_ids)
        return np.where(np.isnan(own), self._base.rescore(asked, chunk_ids), own)

    def query_tokens(self, query: Query) -> int:
        return self._base.query_tokens(query)

    def explain(
        self, query: Query, row: ChunkRow, definitions: Sequence[DefinitionSpan], *, before: int = 0
    ) -> list[TokenPair]:
        return self._channel_of(row).explain(query, row, definitions, before=before)
