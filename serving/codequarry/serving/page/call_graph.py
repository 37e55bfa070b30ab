"""Callers and callees of a definition, as places of a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codequarry.schemas.wire.relations import RelationResult

_MOST = 12
"""Definitions of a side that are drawn; the rest is counted."""
_ROW, _BOX, _GAP = 26, 250, 70
"""Height of a row, width of a box, and width between two boxes, in pixels."""
_CHARS = 34


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A box with a name, which leads to a place."""

    x: int
    y: int
    text: str
    uri: str
    line: int
    """1-based."""
    evidence: str


@dataclass(frozen=True, slots=True)
class DrawnGraph:
    """A drawing of three columns: callers, the definition, callees."""

    width: int
    height: int
    name: str
    middle: int
    """Vertical middle of the definition's box."""
    box: int
    callers: tuple[DrawnNode, ...]
    callees: tuple[DrawnNode, ...]
    callers_left_out: int
    callees_left_out: int


def drawn_graph(name: str, callers: Sequence[RelationResult], callees: Sequence[RelationResult]) -> DrawnGraph:
    """Lay a drawing out.

    Args:
        name: Name of the definition.
        callers: What calls it.
        callees: What it calls.

    Returns:
        The drawing; a definition that is named several times is one box.
    """
    left, right = _once(callers), _once(callees)
    rows = max(len(left[:_MOST]), len(right[:_MOST]), 1)
    height = rows * _ROW
    return DrawnGraph(
        3 * _BOX + 2 * _GAP,
        height,
        _short(name),
        height // 2,
        _BOX,
        _column(left[:_MOST], 0, height),
        _column(right[:_MOST], 2 * (_BOX + _GAP), height),
        max(0, len(left) - _MOST),
        max(0, len(right) - _MOST),
    )


def _once(found: Sequence[RelationResult]) -> list[RelationResult]:
    return list({(each.uri, each.name): each for each in reversed(found)}.values())[::-1]


def _column(found: Sequence[RelationResult], x: int, height: int) -> tuple[DrawnNode, ...]:
    top = (height - len(found) * _ROW) // 2
    return tuple(
        DrawnNode(
            x,
            top + number * _ROW,
            _short(each.name or each.uri.rpartition("/")[2]),
            each.uri,
            each.start_line + 1,
            each.evidence,
        )
        for number, each in enumerate(found)
    )


def _short(text: str) -> str:
    return text if len(text) <= _CHARS else f"…{text[-_CHARS + 1 :]}"
