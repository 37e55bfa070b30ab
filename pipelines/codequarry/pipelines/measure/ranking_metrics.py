"""Metrics of a ranked list of chunks for somebody who looks for known places, and intervals of their means.

A target counts once, at the rank of the first chunk that lies in its file and overlaps its lines. Further chunks of the
same target only take up room. Relevance is binary. Intervals are of a percentile bootstrap over questions (Efron,
1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import NamedTuple

import numpy as np

from codequarry.pipelines.measure.questions import Hit, Target
from codequarry.schemas.wire.search import CHARS_PER_TOKEN

DEPTH = 10
"""Depth of NDCG and MRR, and the most targets of the ideal list."""
BUDGET_TOKENS = 4_000
HALF_LIFE_TOKENS = 1_000


class Scores(NamedTuple):
    """The figures of one answer, each in [0, 1]."""

    ndcg_10: float
    mrr_10: float
    recall_5: float
    recall_10: float
    recall_50: float
    recall_4k: float
    """Share of the targets in the first 4,000 tokens."""
    token_gain: float
    """Mean over the targets of 2^(-tokens before it / 1,000)."""


METRICS = Scores._fields
TITLES = {
    "ndcg_10": "NDCG@10",
    "mrr_10": "MRR@10",
    "recall_5": "R@5",
    "recall_10": "R@10",
    "recall_50": "R@50",
    "recall_4k": "R@4k",
    "token_gain": "TDG",
}
"""Names of the figures in tables."""


def target_ranks(hits: Sequence[Hit], targets: Sequence[Target]) -> list[int | None]:
    """Return the 1-based rank of the first chunk that answers each target; None when no chunk does."""
    return [next((rank for rank, hit in enumerate(hits, start=1) if hit.answers(target)), None) for target in targets]


def score(hits: Sequence[Hit], targets: Sequence[Target]) -> Scores:
    """Return all figures of one answer.

    Args:
        hits: Results, best first.
        targets: At least one target.

    Returns:
        The figures.
    """
    ranks = target_ranks(hits, targets)
    return Scores(
        ndcg_10=ndcg(ranks),
        mrr_10=reciprocal_rank(ranks),
        recall_5=recall(ranks, 5),
        recall_10=recall(ranks, 10),
        recall_50=recall(ranks, 50),
        recall_4k=recall(ranks, _fitting(hits, BUDGET_TOKENS)),
        token_gain=token_gain(hits, ranks),
    )


def ndcg(ranks: Sequence[int | None], depth: int = DEPTH) -> float:
    """Return the normalized discounted cumulative gain: Σ 1 / log2(1 + rank), divided by that of all targets on top.

    When one chunk answers several targets, for which the ideal would need several ranks, the quotient stays at 1.

    >>> ndcg([1]), round(ndcg([2, None]), 4), ndcg([11])
    (1.0, 0.3869, 0.0)
    """
    gained = sum(1 / log2(1 + rank) for rank in ranks if rank is not None and rank <= depth)
    ideal = sum(1 / log2(1 + rank) for rank in range(1, min(len(ranks), depth) + 1))
    return min(gained / ideal, 1.0)


def reciprocal_rank(ranks: Sequence[int | None], depth: int = DEPTH) -> float:
    """Return 1 / rank of the first target; 0 when it comes after ``depth``."""
    first = min((rank for rank in ranks if rank is not None), default=depth + 1)
    return 1 / first if first <= depth else 0.0


def recall(ranks: Sequence[int | None], depth: int) -> float:
    """Return the share of the targets among the first ``depth`` chunks."""
    return sum(rank is not None and rank <= depth for rank in ranks) / len(ranks)


def token_gain(hits: Sequence[Hit], ranks: Sequence[int | None], half_life: int = HALF_LIFE_TOKENS) -> float:
    """Return the mean over the targets of 2^(-tokens before it / half-life).

    This is time-biased gain (Smucker and Clarke, SIGIR 2012) of a reader whose time goes by tokens.
    """
    before = [0]
    for hit in hits:
        before.append(before[-1] + hit.chars)
    return sum(2 ** (-before[rank - 1] / CHARS_PER_TOKEN / half_life) for rank in ranks if rank is not None) / len(
        ranks
    )


def _fitting(hits: Sequence[Hit], tokens: int) -> int:
    """Count the first chunks that fit whole into a budget."""
    total = 0
    for count, hit in enumerate(hits):
        total += hit.chars
        if total > tokens * CHARS_PER_TOKEN:
            return count
    return len(hits)


RESAMPLES = 2_000
LEVEL = 0.95


def intervals(values: np.ndarray, *, level: float = LEVEL, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of the interval of each column's mean: two (m,) float64.

    The same rows are drawn for all columns. For a paired comparison the rows are differences between two answers to the
    same question.

    Args:
        values: (n, m) float64, a row for each question, n ≥ 1.
        level: Confidence level of the interval.
        seed: Seed of the drawing.

    Returns:
        Lower and upper bounds.
    """
    drawn = np.random.default_rng(seed)
    n = len(values)
    # How often each row is drawn, not which rows: a (resamples, n) product instead of a gather of n · m · resamples.
    counts = drawn.multinomial(n, np.full(n, 1 / n), size=RESAMPLES)
    tail = (1 - level) / 2
    low, high = np.quantile(counts @ values / n, [tail, 1 - tail], axis=0)
    return low, high
