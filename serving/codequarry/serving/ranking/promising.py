"""Choice of the bundles that a search without a filter is asked of, where a fleet has many.

First the terms of the query are looked up in each bundle, by CORI (Callan, Lu and Croft, SIGIR 1995): a term speaks
for a bundle that holds it often for its size, the more the fewer bundles hold it. Of those that are left, words speak
for the bundle with the best chunk by BM25. By meaning it is, both times, the file whose summary is nearest to the
query. The orders by words and by meaning are taken by turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from codequarry.serving.channels.base import TermStatistics

_FLOOR, _LENGTH = 50.0, 150.0
"""Constants of CORI for the frequency of a term and for the size of a bundle."""

_FACTOR = 4
"""Bundles that are looked at once more, for each that is chosen."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures by which the bundles that a search asks are chosen."""

    statistics: TermStatistics | None
    """Of the query's terms; None without a lexical index."""
    nearest: float
    """Similarity of the nearest file summary to the query; 0 without an encoder, or where none was asked for."""


def most_promising(
    measured: Sequence[Measured], limit: int, best_scores: Callable[[TermStatistics, Sequence[int]], Sequence[float]]
) -> list[int]:
    """Choose the bundles that a query is asked of.

    Args:
        measured: Figures of all that may answer.
        limit: Most bundles to choose.
        best_scores: Returns the lexical score of the best chunk of some bundles, with the statistics of all of them.

    Returns:
        Their places in the sequence, ascending.
    """
    counted = [one.statistics or TermStatistics(0, {}) for one in measured]
    near = np.array([one.nearest for one in measured])
    left = _by_turns((_by_words(counted), near), _FACTOR * limit)
    scores = np.array(best_scores(TermStatistics.total(counted), left))
    kept = np.array(left)
    return sorted(int(kept[place]) for place in _by_turns((scores, near[kept]), limit))


def _by_turns(scores: Sequence[np.ndarray], limit: int) -> list[int]:
    """Return the places with the highest scores, from each array of scores by turns."""
    orders = [np.argsort(-each, kind="stable").tolist() for each in scores]
    return list(dict.fromkeys(chain.from_iterable(zip(*orders, strict=True))))[:limit]


def _by_words(counted: Sequence[TermStatistics]) -> np.ndarray:
    """Return the belief of CORI in each bundle: (b,) float64."""
    mean = np.mean([each.documents for each in counted]) or 1.0
    beliefs = np.zeros(len(counted))
    for key in dict.fromkeys(chain.from_iterable(each.frequencies for each in counted)):
        frequencies = np.array([each.frequencies.get(key, 0) for each in counted], np.float64)
        if not (holding := np.count_nonzero(frequencies)):
            continue
        sizes = np.array([each.documents for each in counted]) / mean
        rarity = math.log((len(counted) + 0.5) / holding) / math.log(len(counted) + 1.0)
        beliefs += rarity * frequencies / (frequencies + _FLOOR + _LENGTH * sizes)
    return beliefs
