"""Choice of the lines of a chunk that answer a query: the snippet of a result."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from codequarry.serving.text.lexical import distinct_terms

_IMPORT = re.compile(
    r"\s*(?:import\b|from\s+\S+\s+import\b|#\s*include\b|using\s+[\w.:]+\s*;|use\s+[\w:{]|package\s+\w|require\b|"
    r"require_relative\b|module\.exports|export\s+\*|const\s+\S+\s*=\s*require\()"
)
_COMMENT = re.compile(r"\s*(?:#(?!\s*(?:include|define|if|endif))|//|/\*|\*|--\s|;;|<!--|\"\"\"|''')")
_BARE = re.compile(r"[\s{}()\[\];,]*")
_LICENCE = re.compile(r"\b(?:copyright|licen[cs]ed?|warranty|SPDX)\b", re.IGNORECASE)
_SHARE_OF_IMPORT, _SHARE_OF_COMMENT, _SHARE_OF_LICENCE = 0.2, 0.6, 0.1
"""Weight of a term in such a line beside one in a line of code."""
_AGAIN = 0.1
"""Weight of a further line with a term that the window has already."""
_BEGINNING = 0.5
"""Weight of the first line of code: mostly it is the definition's signature."""


class Window(NamedTuple):
    """Lines of a text, numbered from 0."""

    first: int
    last: int
    """Inclusive."""


def best_window(text: str, terms: Collection[str], size: int) -> Window:
    """Choose the lines of a text that hold most of a query.

    A term counts once in a window, most where it stands in code and least in an import or a licence. Without any term
    the window begins at the first line of code. Of equal windows the first is taken.

    Args:
        text: Text of a chunk.
        terms: Index terms of the query.
        size: Most lines.

    Returns:
        The window; it neither begins nor ends with a blank line unless the text is blank.
    """
    lines = text.split("\n")
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if not filled:
        return Window(0, 0)
    first, last = filled[0], filled[-1]
    if last - first < size:
        return Window(first, last)
    wanted = frozenset(terms)
    found: list[dict[str, float]] = [{}] * len(lines)
    for number in _lines_that_may_hold(text.lower(), wanted):
        found[number] = _weighed(lines[number], wanted)
    beginning = next((number for number in filled if _share(lines[number]) == 1.0), first)
    latest = next(number for number in filled if number + size > last)
    # A window that begins at a line without a term holds no more than one that begins at the next line with one.
    starts = [number for number in filled if number < latest and (found[number] or number == beginning)]
    best = max([*starts, latest], key=lambda start: (_worth(found, start, size, beginning), -start))
    if not any(found[best : best + size]):
        best = min(beginning, latest)
    end = max(number for number in filled if number < best + size)
    return Window(best, end)


def _lines_that_may_hold(lowered: str, terms: Collection[str]) -> set[int]:
    """Return the lines that hold the beginning of a term: splitting all lines into terms takes far longer.

    Terms are words or stems, which words begin with, but for a last "y" ("queries" has the stem "query").
    """
    ends = list(accumulate(len(line) + 1 for line in lowered.split("\n")))
    holding: set[int] = set()
    for term in terms:
        beginning = term.removesuffix("y")
        at = lowered.find(beginning)
        while at >= 0:
            line = bisect_right(ends, at)
            holding.add(line)
            at = lowered.find(beginning, ends[line])
    return holding


def _weighed(line: str, wanted: frozenset[str]) -> dict[str, float]:
    held = _terms_of_line(line) & wanted
    return dict.fromkeys(held, _share(line)) if held else {}


@lru_cache(maxsize=16_384)
def _terms_of_line(line: str) -> frozenset[str]:
    return frozenset(distinct_terms(line))


def _share(line: str) -> float:
    """Return what a term counts in a line.

    >>> _share("import os"), _share("# Copyright 2020"), _share("x = 1")
    (0.2, 0.1, 1.0)
    """
    if _BARE.fullmatch(line):
        return 0.0
    if _IMPORT.match(line):
        return _SHARE_OF_IMPORT
    if _COMMENT.match(line):
        return _SHARE_OF_LICENCE if _LICENCE.search(line) else _SHARE_OF_COMMENT
    return 1.0


def _worth(found: Sequence[dict[str, float]], start: int, size: int, beginning: int) -> float:
    """Return how much of the query the lines from ``start`` hold."""
    best: dict[str, float] = {}
    again = 0
    for weights in found[start : start + size]:
        for term, weight in weights.items():
            again += term in best
            best[term] = max(best.get(term, 0.0), weight)
    return sum(best.values()) + _AGAIN * again + _BEGINNING * (bool(best) and start <= beginning < start + size)
