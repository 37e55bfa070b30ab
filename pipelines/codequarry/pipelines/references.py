"""Identifiers that name something without defining it, by the syntax around them.

This is what answers "who uses it" where no SCIP indexer ran: names, not resolved symbols.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from codequarry.pipelines.definitions import Outline
from codequarry.pipelines.source_text import SourceText
from codequarry.schemas.records import Reference

if TYPE_CHECKING:
    from tree_sitter import Tree

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
    for node in captures.get("dotted", ()):
        start, end = node.byte_range
        found[max(text.data.rfind(b".", start, end) + 1, start)] = (end, "type")
    for node in captures.get("skip", ()):
        found.pop(node.start_byte, None)
    for definition in outline.definitions:
        found.pop(definition.name_byte, None)
    for start in outline.names:
        found.pop(start, None)
    places = sorted((start, end, role) for start, (end, role) in found.items() if end - start <= MAX_NAME_BYTES)
    starts = [start for start, _, _ in places]
    roles = [role for _, _, role in places]
    for node in captures.get("import", ()):
        first, last = bisect_left(starts, node.start_byte), bisect_left(starts, node.end_byte)
        roles[first:last] = ["import"] * (last - first)
    names = [text.data[start:end].decode("utf-8", "replace") for start, end, _ in places]
    return tuple(map(Reference, names, roles, starts, *text.places_at(starts)))
