"""Fusion of channels on one scale: each candidate of a channel gets a value in [0, 1].

``score``: by the channel's own scores, the best of the answer being 1. ``weighted_rrf``: by ranks alone, (k + 1) / (k +
rank), which is weighted reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009) up to a constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from codequarry.serving.channels.base import Candidates

_FLOOR_RANK = 100
"""Rank at which values of a dense channel reach the floor: such a channel ranks every chunk there is."""
_LEAST = 0.001
"""Smallest value of a chunk that the channel found, above that of chunks it did not find."""
_BY_MEANING = ("faiss", "warp")
"""Prefixes of the names of such channels."""
_SYMBOL = "symbol"


@dataclass(frozen=True, slots=True)
class Pool:
    """Candidates of all channels. Rows are chunks by ascending id."""

    chunk_ids: np.ndarray
    """(n,) int64."""
    ranks: Mapping[str, np.ndarray]
    """(n,) int32 by channel, 1-based; 0 where the channel did not find the chunk."""
    scores: Mapping[str, np.ndarray]
    """(n,) float64 by channel, its own scale; 0 where it did not find the chunk."""
    values: Mapping[str, np.ndarray]
    """(n,) float64 by channel, in [0, 1]."""


def common_scores(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Merge the scores of several bundles, so that values of their candidates are on one scale.

    Args:
        parts: (n,) float64 scores of candidates by channel, for each bundle.

    Returns:
        Scores of all candidates by channel, descending.
    """
    names = dict.fromkeys(name for each in parts for name in each)
    return {name: -np.sort(-np.concatenate([each[name] for each in parts if name in each])) for name in names}


def deciding_scores(scores: np.ndarray, method: str) -> np.ndarray:
    """Return the first of a channel's descending scores that decide about the values of others, see `pool`."""
    return scores[: _FLOOR_RANK + 1] if method == "score" else scores


def pool(
    answers: Mapping[str, Candidates],
    *,
    method: str,
    k: float,
    extra: np.ndarray | None = None,
    among: Mapping[str, np.ndarray] | None = None,
) -> Pool:
    """Merge the candidates of all channels into one table.

    >>> one = Candidates(np.array([8, 7]), np.array([0.9, 0.3]))
    >>> [values.tolist() for values in pool({"bm25": one}, method="score", k=60).values.values()]
    [[0.3333333333333333, 1.0]]

    Args:
        answers: Candidates by channel.
        method: ``score`` or ``weighted_rrf``.
        k: Constant of ``weighted_rrf``, positive.
        extra: (m,) int64: further chunks, which no channel found.
        among: Scores of the candidates of all bundles as `common_scores` returns them; None for a bundle alone.

    Returns:
        The table of candidates.
    """
    found = [found.chunk_ids for found in answers.values()]
    ids = np.unique(np.concatenate([*found, np.empty(0, np.int64) if extra is None else extra]))
    ranks: dict[str, np.ndarray] = {}
    scores: dict[str, np.ndarray] = {}
    values: dict[str, np.ndarray] = {}
    for name in sorted(answers):
        rows = np.searchsorted(ids, answers[name].chunk_ids)
        own = answers[name].scores.astype(np.float64)
        rank = np.arange(1, len(rows) + 1)
        everyones = own if among is None else among[name]
        if method == "score":
            value = _by_score(name, own, everyones)
        else:
            value = (k + 1) / (k + (rank if among is None else 1 + np.searchsorted(-everyones, -own)))
        ranks[name], scores[name], values[name] = (
            _scatter_column(rows, column, len(ids)) for column in (rank.astype(np.int32), own, value)
        )
    return Pool(ids, ranks, scores, values)


def _by_score(name: str, scores: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Convert a channel's scores, in descending order, into values on the scale of scores that they are among."""
    if name == _SYMBOL or not len(scores):
        return scores  # how well a name fits is a value already
    best = float(among[0])
    by_meaning = name.startswith(_BY_MEANING) and len(among) > 1
    floor = float(among[min(_FLOOR_RANK, len(among) - 1)]) if by_meaning else 0.0
    if best <= floor:
        return np.ones(len(scores))
    return np.clip((scores - floor) / (best - floor), _LEAST, 1)


def _scatter_column(rows: np.ndarray, column: np.ndarray, count: int) -> np.ndarray:
    placed = np.zeros(count, column.dtype)
    placed[rows] = column
    return placed
