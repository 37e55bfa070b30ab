"""Evidence of chunks by their form and their names.

Factors of form are whether a chunk only declares something, how long it is, how much of it is comment, and whether it
is the first of its file. They are computed once for a version, over all chunks at once.
"""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Self

import numpy as np

from codequarry.schemas.ranking_profile import COMMENTS_FROM, ChunkProfile
from codequarry.serving.catalog.chunk_arrays import ChunkRows
from codequarry.serving.text.analyzer import words
from codequarry.serving.text.stems import stem

DECLARATIONS = frozenset({"interface", "trait", "protocol", "struct", "enum", "type"})
"""Kinds of chunks that say what there is."""
_LONG = 60
"""Lines from which on a longer chunk counts no more."""
_NAMES = 50
"""Most definitions of a chunk whose names are read."""


class RankedChunks:
    """Chunks of a version for the ranking."""

    def __init__(self, rows: ChunkRows, profile: ChunkProfile) -> None:
        """Compute the factors of all chunks.

        Args:
            rows: Chunks of the version.
            profile: Factors by form.
        """
        self._rows, self._profile = rows, profile
        numbers = [number for kind in sorted(DECLARATIONS) if (number := rows.texts.find(kind)) >= 0]
        declares = np.isin(rows.chunks["kind"], numbers)[rows.ids_rows]
        lines = (rows.chunks["end_line"].astype(np.int64) - rows.chunks["start_line"] + 1)[rows.ids_rows]
        by_length = np.array([length_factor(count, profile)[f"lines:{count}"] for count in range(_LONG + 1)])
        by_comments = np.array([comment_factor(percent, profile)[f"comments:{percent}"] for percent in range(101)])
        self._products = (
            np.where(declares, profile.declaration, 1.0)
            * by_length[np.clip(lines, 0, _LONG)]
            * by_comments[np.minimum(rows.chunks["comment_percent"][rows.ids_rows], 100)]
            * np.where(rows.chunks["start_byte"][rows.ids_rows] == 0, profile.head, 1.0)
        )

    def by(self, profile: ChunkProfile) -> Self:
        """Return the same chunks with another profile."""
        return type(self)(self._rows, profile)

    def factors(self, chunk_ids: np.ndarray) -> np.ndarray:
        """Return the product of `factors_of` for chunks.

        Args:
            chunk_ids: (m,) int64, all of this version.

        Returns:
            (m,) float64 in [0, 1].
        """
        return self._products[np.searchsorted(self._rows.ids, chunk_ids)]

    def name_cover(self, chunk_ids: np.ndarray, stems: AbstractSet[str]) -> np.ndarray:
        """Return how much of a query the names in chunks say.

        Args:
            chunk_ids: (m,) int64.
            stems: Stems of the query's words, at least one.

        Returns:
            (m,) float64 in [0, 1]: the square of the share of the words that stand in the name of the definition that
            the chunk is or is part of, or in one that starts in it.
        """
        rows = self._rows.rows_of(chunk_ids)
        around = self._rows.chunks["qualified_name"][rows].tolist()
        shares = np.zeros(len(rows))
        for at, (row, name) in enumerate(zip(rows.tolist(), around, strict=True)):
            names = (self._rows.texts[name], *self._rows.symbols_of(row)[:_NAMES])
            shares[at] = len(stems & frozenset[str]().union(*map(_stems_of, names))) / len(stems)
        return shares**2

    def factors_of(self, chunk_id: int, power: float = 1.0) -> dict[str, float]:
        """Return the factors of a chunk, by rule, raised to a power; factors of 1 are left out."""
        found = self._rows.numbers(int(self._rows.rows_of([chunk_id])[0]))
        lines = min(max(found["end_line"] - found["start_line"] + 1, 0), _LONG)
        rules = {
            **kind_factor(self._rows.texts[found["kind"]], self._profile),
            **length_factor(lines, self._profile),
            **comment_factor(min(found["comment_percent"], 100), self._profile),
            **({} if found["start_byte"] else {"first_of_file": self._profile.head}),
        }
        return {rule: factor**power for rule, factor in rules.items() if factor**power != 1}


@lru_cache(maxsize=32_768)
def _stems_of(name: str) -> frozenset[str]:
    return frozenset(stem(word.text.lower()) for word in words(name))


def kind_factor(kind: str, profile: ChunkProfile) -> dict[str, float]:
    """Return the factor that ranks declarations below what does the work."""
    return {f"kind:{kind}": profile.declaration} if kind in DECLARATIONS else {}


def length_factor(lines: int, profile: ChunkProfile) -> dict[str, float]:
    """Return the factor that ranks short chunks lower, because they hold less of an answer.

    Args:
        lines: Lines of the chunk, 0 to 60.
        profile: Factors by form.

    Returns:
        The factor by its rule, 1 for 60 lines.
    """
    longest = 1 + profile.length * math.log1p(_LONG)
    return {f"lines:{lines}": (1 + profile.length * math.log1p(lines)) / longest}


def comment_factor(percent: int, profile: ChunkProfile) -> dict[str, float]:
    """Return the factor that ranks comments lower, because they say what the code beside them does.

    Args:
        percent: Share of comments in the chunk, 0 to 100.
        profile: Factors by form.

    Returns:
        The factor by its rule, 1 up to `COMMENTS_FROM` percent.
    """
    beyond = max(percent - COMMENTS_FROM, 0) / (100 - COMMENTS_FROM)
    return {f"comments:{percent}": 1 - (1 - profile.comments) * beyond}
