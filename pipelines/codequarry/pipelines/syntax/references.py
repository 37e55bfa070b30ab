"""Identifiers that name something without defining it, by the syntax around them.

They answer "who uses it" where no SCIP indexer ran: names, not resolved symbols.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from codequarry.pipelines.syntax.definitions.definitions import Outline
from codequarry.pipelines.syntax.parsing import MENTION_LIMIT, query_captures
from codequarry.pipelines.syntax.text import SourceText
from codequarry.schemas.records import Reference

if TYPE_CHECKING:
    from tree_sitter import Tree

    from codequarry.pipelines.syntax.grammars import Grammar

MAX_NAME_BYTES = 200
_ROLES = {"name": "other", "type": "type", "call": "call"}
"""Role by capture; of several captures of one identifier the last here wins."""


def references(
    grammar: Grammar, tree: Tree, outline: Outline, text: SourceText, macros: Sequence[tuple[int, int]] = ()
) -> tuple[Reference, ...]:
    """Return the identifiers of a tree by start, without names of definitions and of passed parameters.

    Args:
        grammar: Grammar of the tree.
        tree: Syntax tree.
        outline: Definitions of the file.
        text: Text of the file.
        macros: Bytes of names that are not in the tree, because macros around declarations were blanked out.

    Returns:
        The references.
    """
    if grammar.references is None:
        return ()
    captures = query_captures(grammar.references, tree, MENTION_LIMIT)
    found: dict[int, tuple[int, str]] = {}
    for capture, role in _ROLES.items():
        for node in captures.get(capture, ()):
            start, end = node.byte_range
            found[start] = (end, role)
    for start, end in macros:
        found[start] = (end, "call" if text.data[end : end + 1] in (b"(", b"!") else "other")
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
    marked = 0
    for start, end in sorted(node.byte_range for node in captures.get("import", ())):
        first, last = max(bisect_left(starts, start), marked), bisect_left(starts, end)
        roles[first:last] = ["import"] * (last - first)
        marked = max(marked, last)
    names = [text.data[start:end].decode("utf-8", "replace") for start, end, _ in places]
    return tuple(map(Reference, names, roles, starts, *text.places_at(starts)))
