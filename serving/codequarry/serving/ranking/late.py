"""Decision when a hybrid search uses late interaction, which is expensive and seldom changes a clear order.

The ranking of the other channels decides. If it leaves doubt, its first chunks are scored again token by token. Then
all chunks are ranked once more with these scores as another channel; other chunks get no value from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from codequarry.schemas.bundle.layout import DENSE_LEGS
from codequarry.schemas.settings.service import StageSettings
from codequarry.serving.channels.base import Candidates, ChannelQuery, ranked
from codequarry.serving.ranking.ranking import Placed, Scored
from codequarry.serving.request.deadline import Deadline

LATE = "warp"
NO_TIME = "no time left"
_FIRST = 10


@runtime_checkable
class Rescorer(Protocol):
    """Channel that scores given chunks."""

    def rescore(self, asked: ChannelQuery, chunk_ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Score chunks in the requested order, NaN for unknown chunks: (m,) float32."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision whether late interaction is used, with the reason."""

    runs: bool
    why: str
    """Name of the criterion: margin, similarity, …"""
    value: float | None = None
    """Figure that was compared."""

    @property
    def verdict(self) -> str:
        """Decision without the figure, e.g. ``ran: margin``."""
        return f"{'ran' if self.runs else 'skipped'}: {self.why}"

    def __str__(self) -> str:
        return self.verdict if self.value is None else f"{self.verdict} {self.value:.2f}"


def ran(why: str, value: float | None = None) -> Decision:
    """Return the decision to use late interaction."""
    return Decision(True, why, value)


def skipped(why: str, value: float | None = None) -> Decision:
    """Return the decision to skip late interaction."""
    return Decision(False, why, value)


def decide(
    ordered: Sequence[Scored | Placed],
    answers: Mapping[str, Candidates],
    deadline: Deadline,
    settings: StageSettings,
) -> Decision:
    """Decide whether late interaction scores a ranking again.

    >>> str(decide([], {}, Deadline.after(1), StageSettings()))
    'skipped: nothing to look at'

    Args:
        ordered: That ranking, best first.
        answers: Candidates of the channels it was made of.
        deadline: Deadline of the request.
        settings: Its mode, and the limits beyond which the ranking leaves doubt.

    Returns:
        The decision.
    """
    if not ordered:
        return skipped("nothing to look at")
    if deadline.passed:
        return skipped(NO_TIME)
    if settings.late_mode != "uncertain":
        return ran("every query")
    scores = [one.score for one in ordered[:_FIRST]]
    margin = scores[0] - (scores[1] if len(scores) > 1 else 0.0)
    if margin < settings.late_margin:
        return ran("margin", margin)
    nearest = [float(answers[name].scores[0]) for name in DENSE_LEGS if name in answers and len(answers[name].scores)]
    if nearest and max(nearest) < settings.late_similarity:
        return ran("similarity", max(nearest))
    if "bm25" in answers and not len(answers["bm25"].chunk_ids):
        return ran("no word was found")
    if (spread := entropy(scores)) > settings.late_entropy:
        return ran("entropy", spread)
    return skipped("margin", margin)


def entropy(scores: Sequence[float]) -> float:
    """Return the Shannon entropy of positive scores as shares of their sum, divided by its maximum: 0 to 1.

    >>> entropy([0.5]), entropy([0.2, 0.2]), round(entropy([0.9, 0.1]), 3)
    (0.0, 1.0, 0.469)
    """
    total = sum(scores)
    if len(scores) < 2 or total <= 0:
        return 0.0
    shares = [score / total for score in scores]
    return -sum(share * math.log(share) for share in shares if share > 0) / math.log(len(scores))


def rescore_first(channel: Rescorer, asked: ChannelQuery, ordered: Sequence[Scored], count: int) -> Candidates:
    """Score the first ``count`` chunks of a ranking by late interaction; raises as `Rescorer.rescore`."""
    ids = np.array([one.chunk_id for one in ordered[:count]], np.int64)
    scores = channel.rescore(asked, ids)
    held = ~np.isnan(scores)
    return ranked(ids[held], scores[held], count)
