"""When a hybrid search asks late interaction, and for what: it is dear, and seldom changes an order that is clear.

The ranking of the other channels decides. Where it leaves doubt, its first chunks are scored again token by token, and
all is ranked once more with these scores as one channel more; a chunk that was not scored again has nothing of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from codequarry.schemas.layout import DENSE_LEGS
from codequarry.serving.channels import Candidates, ranked
from codequarry.serving.deadline import Deadline
from codequarry.serving.ranking import Scored

LATE = "warp"
RESCORED = 100
"""So many chunks of the first ranking are scored again."""
MARGIN = 0.08
"""A first score closer to the second leaves doubt."""
SIMILARITY = 0.3
"""A query whose nearest vector is farther has none that is near. In this project's own index, 94 first sentences of its
documentation have theirs at 0.32 or nearer, half of them at 0.5; of 106 names one in ten is farther."""
ENTROPY = 0.994
"""Of the first ten scores, as shares of their sum, where 1 is ten equal ones: above it nothing stands out. Of the same
sentences a quarter, of the names one in twelve."""
NO_TIME = "no time left"
_FIRST = 10


@runtime_checkable
class Rescorer(Protocol):
    """A channel that scores given chunks."""

    def rescore(
        self, query: str, chunk_ids: NDArray[np.int64], *, deadline: Deadline | None = None
    ) -> NDArray[np.float32]:
        """(m,) float32 in the order asked, NaN for a chunk it does not hold."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether it was asked, and by what that was decided."""

    runs: bool
    why: str
    """One of few: margin, similarity, …"""
    value: float | None = None
    """What it was compared by."""

    @property
    def verdict(self) -> str:
        """Without the figure, e.g. ``ran: margin``."""
        return f"{'ran' if self.runs else 'skipped'}: {self.why}"

    def __str__(self) -> str:
        return self.verdict if self.value is None else f"{self.verdict} {self.value:.2f}"


def ran(why: str, value: float | None = None) -> Decision:
    """It is asked."""
    return Decision(True, why, value)


def skipped(why: str, value: float | None = None) -> Decision:
    """It is not."""
    return Decision(False, why, value)


def decide(ordered: Sequence[Scored], answers: Mapping[str, Candidates], deadline: Deadline) -> Decision:
    """Whether the ranking of the other channels leaves doubt.

    ordered: that ranking, best first. answers: of the channels it was made of.

    >>> str(decide([], {}, Deadline.after(1)))
    'skipped: nothing to look at'
    """
    if not ordered:
        return skipped("nothing to look at")
    if deadline.passed:
        return skipped(NO_TIME)
    scores = [one.score for one in ordered[:_FIRST]]
    margin = scores[0] - (scores[1] if len(scores) > 1 else 0.0)
    if margin < MARGIN:
        return ran("margin", margin)
    nearest = [float(answers[name].scores[0]) for name in DENSE_LEGS if name in answers and len(answers[name].scores)]
    if nearest and max(nearest) < SIMILARITY:
        return ran("similarity", max(nearest))
    if "bm25" in answers and not len(answers["bm25"].chunk_ids):
        return ran("no word was found")
    if (spread := entropy(scores)) > ENTROPY:
        return ran("entropy", spread)
    return skipped("margin", margin)


def entropy(scores: Sequence[float]) -> float:
    """Shannon entropy of positive scores as shares of their sum, by the largest there can be of so many: 0 to 1.

    >>> entropy([0.5]), entropy([0.2, 0.2]), round(entropy([0.9, 0.1]), 3)
    (0.0, 1.0, 0.469)
    """
    total = sum(scores)
    if len(scores) < 2 or total <= 0:
        return 0.0
    shares = [score / total for score in scores]
    return -sum(share * math.log(share) for share in shares if share > 0) / math.log(len(scores))


def rescored(channel: Rescorer, query: str, ordered: Sequence[Scored], deadline: Deadline) -> Candidates:
    """The first chunks of a ranking by late interaction. Raises as `Rescorer.rescore` does."""
    ids = np.array([one.chunk_id for one in ordered[:RESCORED]], np.int64)
    scores = channel.rescore(query, ids, deadline=deadline)
    held = ~np.isnan(scores)
    return ranked(ids[held], scores[held], RESCORED)
