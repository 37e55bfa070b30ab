"""Confidence that the index holds what a query asks for, on one scale for all queries and repositories.

Scores of results compare the results of one query, and the first of a nonsense query has a high score too. Confidence
is a logistic regression over three figures that mean the same everywhere. It was fitted to mined questions, asked of
the repository they come from and of others; ``python -m benchmarks.quality.confidence`` fits it again, and ADR 32 has
figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from codequarry.serving.catalog.catalog import ChunkRow
from codequarry.serving.text.lexical import distinct_terms

READ = 10
"""Number of first results whose text is looked at."""
MOST_TERMS = 32
"""Terms from which on a longer query says no more about its match."""


@dataclass(frozen=True, slots=True)
class _Regression:
    """Coefficients of the log-odds, and the confidence below which a match is weak.

    Of the questions with an answer, 4 of 100 are below it in cross-validation by repository.
    """

    constant: float
    coverage: float
    length: float
    similarity: float
    weak_below: float


_WITH_SIMILARITY = _Regression(-13.5, 7.7, 2.22, 12.33, weak_below=0.24)
"""For the shipped encoder and those trained from it, whose similarities are on one scale."""
_WITHOUT = _Regression(-11.12, 9.87, 3.0, 0.0, weak_below=0.18)
"""For all others."""


@dataclass(frozen=True, slots=True)
class MatchStrength:
    """Evidence for a match, apart from the order of results."""

    coverage: float
    """Share of the query's terms that one of the first chunks holds, each term by its rarity: 0 to 1."""
    terms: int
    """Number of terms of the query."""
    similarity: float | None
    """Cosine similarity of the nearest vector; None where it is on no known scale."""

    @property
    def confidence(self) -> float:
        """Probability that the index holds an answer, were one query in two answered: 0 to 1.

        >>> MatchStrength(1.0, 4, 0.6).confidence > 0.9 > 0.1 > MatchStrength(0.3, 4, 0.4).confidence
        True
        """
        by = self._regression
        odds = by.constant + by.coverage * self.coverage + by.length * math.log1p(min(self.terms, MOST_TERMS))
        return 1 / (1 + math.exp(-(odds + by.similarity * (self.similarity or 0.0))))

    @property
    def weak(self) -> bool:
        """True when the index probably holds no answer."""
        return self.confidence < self._regression.weak_below

    @property
    def _regression(self) -> _Regression:
        return _WITHOUT if self.similarity is None else _WITH_SIMILARITY


def match_strength(
    rows: Iterable[ChunkRow], rarity: Mapping[str, float], similarity: float | None, *, whole: bool
) -> MatchStrength:
    """Measure how well the first results match the terms of a query.

    Args:
        rows: Chunks of the results, best first.
        rarity: Terms of the query with their inverse document frequencies, positive.
        similarity: See `MatchStrength.similarity`.
        whole: Read all of the first chunks; otherwise stop at the first that rules a weak match out.

    Returns:
        The strength of the match.
    """
    total = sum(rarity.values())
    best = MatchStrength(0.0, len(rarity), similarity)
    for row, _ in zip(rows, range(READ), strict=False):
        if total and (whole or best.weak):
            coverage = _weight_within(row, rarity) / total
            best = max(best, MatchStrength(coverage, len(rarity), similarity), key=lambda one: one.coverage)
    return best


def _weight_within(row: ChunkRow, rarity: Mapping[str, float]) -> float:
    texts: Sequence[str] = (row.path, row.qualified_name, *row.symbols, row.text)
    held = distinct_terms("\n".join(texts))
    return sum(weight for term, weight in rarity.items() if term in held)
