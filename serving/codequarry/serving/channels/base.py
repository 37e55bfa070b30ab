"""Interface of a retrieval channel: one index that ranks chunks for a query."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from codequarry.schemas.errors import UnavailableError
from codequarry.serving.channels.faiss_search import USUAL, Effort
from codequarry.serving.request.deadline import NEVER, Deadline
from codequarry.serving.text.query_classes import Query


@dataclass(frozen=True, slots=True)
class TermStatistics:
    """Documents of a lexical index, and those that hold the terms of a query."""

    documents: int
    frequencies: Mapping[tuple[str, str], int]
    """Number of documents by field and term."""

    def rarity(self, field: str, term: str) -> float:
        """Return the inverse document frequency of a term in a field, as BM25 has it.

        >>> every = TermStatistics(3, {("body", "open"): 3})
        >>> every.rarity("body", "open") < 1 < every.rarity("body", "close")
        True
        """
        frequency = self.frequencies.get((field, term), 0)
        return math.log1p((self.documents - frequency + 0.5) / (frequency + 0.5))

    @classmethod
    def total(cls, parts: Iterable[TermStatistics]) -> Self:
        """Return the sum of the statistics of several indexes."""
        documents, frequencies = 0, Counter[tuple[str, str]]()
        for part in parts:
            documents += part.documents
            frequencies.update(part.frequencies)
        return cls(documents, frequencies)


@dataclass(frozen=True, slots=True)
class ChannelQuery:
    """Question to a channel. Every channel gets the same record and reads of it what concerns it."""

    query: Query
    """Analyzed query, not blank."""
    limit: int
    """Most candidates to return."""
    allowed: np.ndarray | None = None
    """(m,) int64, sorted: only these chunks may be returned; None for all."""
    rerank: bool = True
    """Score approximate candidates again exactly. Channels with exact scores ignore it."""
    deadline: Deadline = NEVER
    """No channel begins after it. Slow channels check it while they work."""
    effort: Effort = USUAL
    """Search parameters that override the operating point of a dense index."""
    statistics: TermStatistics | None = None
    """Statistics of all bundles that are asked, so that lexical scores of each are on one scale; None for one alone."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Ranked answer of one channel: best first, equal scores by ascending chunk id."""

    chunk_ids: np.ndarray
    """(m,) int64."""
    scores: np.ndarray
    """(m,) float32, never ascending; the channel's own scale."""
    notes: tuple[str, ...] = ()
    """Notes for the caller, e.g. that the query was cut."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Reasons why a chunk was found, by id, if the channel knows any."""
    vector: np.ndarray | None = None
    """(d,) float32: vector of the query, from a dense channel."""


class Hidden(NamedTuple):
    """Chunks of a base that a delta version over it changed or removed."""

    rows: int
    """Their number, before a chunk that the delta has again is taken out."""
    ids: np.ndarray
    """(h,) int64, sorted: those that the delta does not have again."""
    doubled: np.ndarray
    """(d,) int64, sorted: those that it has again, unchanged, so that both have them."""


NOTHING_HIDDEN = Hidden(0, np.empty(0, np.int64), np.empty(0, np.int64))
"""Of a complete version."""


class Channel(ABC):
    """One index. Implementations are safe to share between threads.

    A subclass ranks in `_rank`, and releases what it holds open in `_release`.
    """

    name: str
    """Name of the channel in the ``channel`` argument of search."""
    source: str
    """Short name of the index, e.g. ``faiss_ivf_sq8``."""
    _closed = False

    def search(self, asked: ChannelQuery) -> Candidates:
        """Rank chunks.

        Args:
            asked: Query, filter, deadline and options.

        Returns:
            Candidates, best first.

        Raises:
            UnavailableError: The channel cannot answer; the message has the reason.
            DeadlineError: The deadline has passed, before the channel began or while it worked.
        """
        asked.deadline.check()
        if self._closed:
            raise UnavailableError("it was closed")
        return self._rank(asked)

    def problem(self) -> str | None:
        """Return the reason why the channel cannot answer, as far as it is known now."""
        return None

    def counts(self) -> dict[str, int]:
        """Return the entries of the index by what they are; there must be one for each chunk of the version."""
        return {}

    def close(self) -> None:
        """Release memory maps and threads. Later searches raise UnavailableError, running ones may fail."""
        if not self._closed:
            self._closed = True
            self._release()

    @abstractmethod
    def _rank(self, asked: ChannelQuery) -> Candidates:
        """Rank chunks as `search` says, for an open channel and a deadline that has not passed."""

    @abstractmethod
    def _release(self) -> None:
        """Release what the channel holds open, and nothing that belongs to others."""


class ShutChannel(Channel):
    """Channel that has been disabled."""

    def __init__(self, channel: Channel, reason: str) -> None:
        self.name = channel.name
        self.source = channel.source
        self._channel = channel
        self._reason = reason

    def problem(self) -> str | None:
        """Return the reason why it was disabled."""
        return self._reason

    def counts(self) -> dict[str, int]:
        """Return what the disabled channel holds."""
        return self._channel.counts()

    def _rank(self, asked: ChannelQuery) -> Candidates:
        raise UnavailableError(self._reason)

    def _release(self) -> None:
        self._channel.close()


NOTHING = Candidates(np.empty(0, np.int64), np.empty(0, np.float32))
"""Answer without candidates."""


def ranked(chunk_ids: np.ndarray, scores: np.ndarray, limit: int, notes: tuple[str, ...] = ()) -> Candidates:
    """Return candidates in their one deterministic order, cut to ``limit``."""
    order = np.lexsort((chunk_ids, -scores))[:limit]
    return Candidates(chunk_ids[order], scores[order], notes)
