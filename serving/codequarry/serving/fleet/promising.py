"""Choice of the bundles that a search without a filter is asked of, where a fleet has many.

First the terms of the query are looked up in each bundle, by CORI (Callan, Lu and Croft, SIGIR 1995): a term speaks
for a bundle that holds it often for its size, the more the fewer bundles hold it. Of those that are left, words speak
for the bundle with the best chunk by BM25. By meaning it is, both times, the file whose summary is nearest to the
query. The orders by words and by meaning are taken by turns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain

import numpy as np

from codequarry.schemas.errors import CodequarryError, UnavailableError
from codequarry.schemas.wire.search import MAX_QUERY_CHARS
from codequarry.serving.channels.base import ChannelQuery, TermStatistics
from codequarry.serving.channels.bm25 import Bm25Channel
from codequarry.serving.channels.dense import FaissChannel
from codequarry.serving.text.query_classes import Query, analyze_query
from codequarry.serving.version.open import Bundle

_FLOOR, _LENGTH = 50.0, 150.0
"""Constants of CORI for the frequency of a term and for the size of a bundle."""

_FACTOR = 4
"""Bundles that are looked at once more, for each that is chosen."""


def most_promising(bundles: Sequence[Bundle], text: str, limit: int) -> list[int]:
    """Choose the bundles that a query is asked of.

    Args:
        bundles: All that may answer.
        text: Text of the query.
        limit: Most bundles to choose; 0 for all.

    Returns:
        Their places in the sequence, ascending.
    """
    if not limit or len(bundles) <= limit or not text.strip():
        return list(range(len(bundles)))
    query = analyze_query(text[:MAX_QUERY_CHARS])
    counted, near = [_statistics(bundle, query) for bundle in bundles], _by_meaning(bundles, query)
    left = _by_turns((_by_words(counted), near), _FACTOR * limit)
    scores = np.zeros(len(bundles))
    asked = ChannelQuery(query, 1, statistics=TermStatistics.total(counted))
    for place in left:
        channel = bundles[place].channels.get("bm25")
        if isinstance(channel, Bm25Channel):
            with suppress(UnavailableError):  # the search itself says so
                scores[place] = channel.best_score(asked)
    kept = np.array(left)
    return sorted(int(kept[place]) for place in _by_turns((scores[kept], near[kept]), limit))


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


def _by_meaning(bundles: Sequence[Bundle], query: Query) -> np.ndarray:
    """Return the similarity of the nearest summary of a file of each bundle: (b,) float64, all 0 without an encoder."""
    found = np.zeros(len(bundles))
    dense = (bundle.channels.get("faiss") for bundle in bundles)
    channel = next((each for each in dense if isinstance(each, FaissChannel) and each.problem() is None), None)
    if channel is None:
        return found
    try:
        vector = channel.encode(query.text)
    except CodequarryError:  # the search itself says so
        return found
    for place, bundle in enumerate(bundles):
        found[place] = bundle.files.nearest_cards(vector).max(initial=-1.0)
    return found


def _statistics(bundle: Bundle, query: Query) -> TermStatistics:
    channel = bundle.channels.get("bm25")
    return channel.statistics(query) if isinstance(channel, Bm25Channel) else TermStatistics(0, {})
