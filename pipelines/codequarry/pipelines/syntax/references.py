"""Identifiers that name something without defining it, by the syntax around them.

They answer "who uses it" where no SCIP indexer ran: names, not resolved symbols.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from codequarry.pipelines.syntax.definitions.definitions import Outline
from codequarry.pipelines.syntax.parsing import MENTION_LIMIT, query_captures
from codequarry.pipelines.syntax.text import SourceText
from codequarry.schemas.records import References

if TYPE_CHECKING:
    from tree_sitter import Tree

    from codequarry.pipelines.syntax.grammars import Grammar

MAX_NAME_BYTES = 200
_byte_range, _start = attrgetter("byte_range"), itemgetter(0)
_ROLES = {"name": "other", "type": "type", "call": "call"}
"""Role by capture; of several captures of one identifier the last here wins."""


def references(
    grammar: Grammar, tree: Tree, outline: Outline, text: SourceText, macros: Sequence[tuple[int, int]] = ()
) -> References:
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
        return References()
    captures = query_captures(grammar.references, tree, MENTION_LIMIT)
    found: dict[int, int] = {}
    role_of: dict[int, str] = {}
    for capture, role in _ROLES.items():
        ranges = list(map(_byte_range, captures.get(capture, ())))
        found.update(ranges)
        role_of.update(dict.fromkeys(map(_start, ranges), role))
    for start, end in macros:
        found[start] = end
        role_of[start] = "call" if text.data[end : end + 1] in (b"(", b"!") else "other"
    for node in captures.get("dotted", ()):
        start, end = node.byte_range
        start = max(text.data.rfind(b".", start, end) + 1, start)
        found[start] = end
        role_of[start] = "type"
    for node in captures.get("skip", ()):
        found.pop(node.start_byte, None)
    for definition in outline.definitions:
        found.pop(definition.name_byte, None)
    for start in outline.names:
        found.pop(start, None)
    starts = sorted(start for start, end in found.items() if end - start <= MAX_NAME_BYTES)
    roles = [role_of[start] for start in starts]
    marked = 0
    for start, end in sorted(node.byte_range for node in captures.get("import", ())):
        first, last = max(bisect_left(starts, start), marked), bisect_left(starts, end)
        roles[first:last] = ["import"] * (last - first)
        marked = max(marked, last)
    # Bytes of ASCII are characters: one text is cut at a third of the cost of decoding each name.
    if text.data.isascii():
        written = text.data.decode("ascii")
        names = [written[start : found[start]] for start in starts]
    else:
        names = [text.data[start : found[start]].decode("utf-8", "replace") for start in starts]
    lines, columns = text.places_at(starts)
    return References(tuple(names), tuple(roles), tuple(starts), tuple(lines), tuple(columns))
