"""What a retrieval channel is: one index that ranks chunks for a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from codequarry.schemas.errors import UnavailableError
from codequarry.serving.deadline import Deadline


@dataclass(frozen=True, slots=True)
class Candidates:
    """The ranked answer of one channel: best first, equal scores by ascending chunk id."""

    chunk_ids: np.ndarray
    """(m,) int64."""
    scores: np.ndarray
    """(m,) float32, never ascending; the channel's own scale."""
    notes: tuple[str, ...] = ()
    """What the asker should know, e.g. that the query was cut."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Why a chunk was found, by id, where the channel knows more than that it was."""
    vector: np.ndarray | None = None
    """(d,) float32: the query's, of a dense channel."""


class Channel(Protocol):
    """One index. Implementations are safe to share between threads."""

    @property
    def name(self) -> str:
        """As in the ``channel`` argument of search."""
        ...

    @property
    def source(self) -> str:
        """The index in a few letters, e.g. ``faiss_ivf_sq8``."""
        ...

    def search(
        self, query: str, limit: int, *, allowed: np.ndarray | None, rerank: bool, deadline: Deadline | None = None
    ) -> Candidates:
        """Rank chunks.

        query: not blank.
        limit: most candidates to return.
        allowed: (m,) int64, sorted: only these chunks may be returned; None for all.
        rerank: score approximate candidates again exactly.
        deadline: what a channel that takes long looks at while it works.

        Raises UnavailableError: the channel cannot answer, and why. DeadlineError: it stopped at the deadline.
        """
        ...

    def problem(self) -> str | None:
        """Why the channel cannot answer, as far as is known now."""
        ...

    def close(self) -> None:
        """Give memory maps and threads back."""
        ...


class ShutChannel:
    """A channel that may not be asked any more."""

    def __init__(self, channel: Channel, reason: str) -> None:
        self.name = channel.name
        self.source = channel.source
        self._channel = channel
        self._reason = reason

    def search(
        self, query: str, limit: int, *, allowed: np.ndarray | None, rerank: bool, deadline: Deadline | None = None
    ) -> Candidates:
        """Raises UnavailableError, always."""
        raise UnavailableError(self._reason)

    def problem(self) -> str | None:
        """Why it was shut."""
        return self._reason

    def close(self) -> None:
        """Close the channel itself."""
        self._channel.close()


def ranked(chunk_ids: np.ndarray, scores: np.ndarray, limit: int, notes: tuple[str, ...] = ()) -> Candidates:
    """Candidates in their one deterministic order, cut to ``limit``."""
    order = np.lexsort((chunk_ids, -scores))[:limit]
    return Candidates(chunk_ids[order], scores[order], notes)
