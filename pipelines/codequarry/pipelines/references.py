"""Identifiers that name something without defining it, by the syntax around them.

This is what answers "who uses it" where no SCIP indexer ran: names, not resolved symbols.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from codequarry.pipelines.definitions import Outline
from codequarry.pipelines.source_text import SourceText
from codequarry.schemas.records import Reference

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

    from codequarry.pipelines.grammars import Grammar

MAX_NAME_BYTES = 200
_ROLES = {"name": "other", "type": "type", "call": "call"}
"""Role by capture; of several captures of one identifier the last here wins."""


def references(grammar: Grammar, tree: Tree, outline: Outline, text: SourceText) -> tuple[Reference, ...]:
    """The identifiers of a tree by start, those apart that are the name of a definition or of a parameter passed."""
    if grammar.references is None:
        return ()
    from tree_sitter import QueryCursor

    captures = QueryCursor(grammar.references).captures(tree.root_node)
    found: dict[int, tuple[int, str]] = {}
    for capture, role in _ROLES.items():
        for node in captures.get(capture, ()):
            start, end = node.byte_range
            found[start] = (end, role)
    for node in captures.get("skip", ()):
        found.pop(node.start_byte, None)
    for definition in outline.definitions:
        found.pop(definition.name_byte, None)
    places = sorted((start, end, role) for start, (end, role) in found.items() if end - start <= MAX_NAME_BYTES)
    importing = _Ranges(captures.get("import", ()))
    starts = [start for start, _, _ in places]
    return tuple(
        Reference(
            text.data[start:end].decode("utf-8", "replace"),
            "import" if importing.hold(start) else role,
            start,
            line,
            start - text.data.rfind(b"\n", 0, start) - 1,
        )
        for (start, end, role), line in zip(places, text.lines_at(starts), strict=True)
    )


class _Ranges:
    """Byte ranges of nodes that do not overlap."""

    def __init__(self, nodes: list[Node] | tuple[()]) -> None:
        self._ranges = sorted(node.byte_range for node in nodes)
        self._starts = [start for start, _ in self._ranges]

    def hold(self, position: int) -> bool:
        """Whether one of them holds the position."""
        at = bisect_right(self._starts, position) - 1
        return at >= 0 and position < self._ranges[at][1]
