"""Definitions that a language writes in several statements: the clauses of a function, and its signature above them.

Haskell and Elixir define a function case by case. Neighbours that define the same name, with nothing but comments,
attributes and pragmas between them, are one definition.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import NamedTuple

from codequarry.schemas.records import Leading

# Atomic, so that no other end of a pragma is tried: thirty of them in a row would have a billion combinations.
_TRIVIA = re.compile(rb"(?:\s|(?>\{-#.*?#-\}))*+", re.DOTALL)
_CLAUSES = frozenset({"function", "method", "macro"})
PREFIX = "prefix"
"""Role of statements such as signatures, which are part of the definition that follows."""


class CapturedDefinition(NamedTuple):
    """A definition as a query captured it."""

    pattern: int
    capture: str
    """Role and kind, joined by a dot."""
    name: str
    name_byte: int
    body_byte: int
    doc: tuple[int, int]
    literal: bool = False
    """The name is text rather than identifiers joined by dots."""
    arity: int = 0
    """Number of parameters, in languages where it tells functions apart."""


Entry = tuple[int, int, CapturedDefinition]
"""(start, end, definition)."""


def join_clauses(
    entries: list[Entry], leading: list[Leading], data: bytes
) -> tuple[list[Entry], frozenset[int], dict[int, int]]:
    """Join the clauses of definitions.

    Args:
        entries: Definitions by start, and then outermost first.
        leading: Comments and attributes by start.
        data: Bytes of the file.

    Returns:
        (entries with clauses joined in the same order, positions of the names of further clauses, end of each joined
        definition by its start).
    """
    kept: list[Entry] = []
    names: set[int] = set()
    ends: dict[int, int] = {}
    starts = [one.start for one in leading]
    last = [-1]
    """Index in ``kept`` of the last entry at each level: the top level, then inside each open entry."""
    open_ends: list[int] = []
    for start, end, found in entries:
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
            last.pop()
        before = kept[last[-1]] if last[-1] >= 0 else None
        if before and _same(before[2], found) and _is_trivia(before[1], start, leading, starts, data):
            first = before[2]
            capture = found.capture if first.capture.startswith(PREFIX) else first.capture
            names.add(found.name_byte)
            ends[before[0]] = end
            kept[last[-1]] = (before[0], end, first._replace(capture=capture, doc=first.doc or found.doc))
        else:
            last[-1] = len(kept)
            kept.append((start, end, found))
        open_ends.append(end)
        last.append(-1)
    return [entry for entry in kept if not entry[2].capture.startswith(PREFIX)], frozenset(names), ends


def _same(first: CapturedDefinition, second: CapturedDefinition) -> bool:
    kinds = {first.capture.rpartition(".")[2], second.capture.rpartition(".")[2]}
    return kinds <= _CLAUSES and (first.name, first.arity) == (second.name, second.arity)


def _is_trivia(start: int, end: int, leading: list[Leading], starts: list[int], data: bytes) -> bool:
    """Return whether there is nothing but comments, attributes, pragmas and whitespace between two positions."""
    between: list[bytes] = []
    at = bisect_left(starts, start)
    while at < len(leading) and leading[at].start < end:
        between.append(data[start : leading[at].start])
        start = max(start, leading[at].end)
        at += 1
    between.append(data[start:end])
    return all(_TRIVIA.fullmatch(part) for part in between)
