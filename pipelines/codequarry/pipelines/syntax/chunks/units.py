"""Units of a syntax tree: the smallest pieces of a file that chunking keeps whole.

The split half of cAST (Zhang et al., arXiv 2506.15655): nodes within budget stay whole, larger ones are replaced by
their children. Only nodes over budget are ever expanded, so the cost grows with the number of chunks, not of tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from codequarry.pipelines.syntax.chunks.span_names import SpanNames
from codequarry.pipelines.syntax.text import SourceText

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

    from codequarry.pipelines.syntax.grammars import Grammar

_CLOSERS = frozenset({b"}", b")", b"]", b">", b";", b",", b"end", b"#endif"})

_TABLE_ITEMS = 200
_TABLE_ITEM_CHARS = 6


class Unit(NamedTuple):
    """A range that is not cut. Between two units there is only whitespace."""

    start: int
    end: int
    leads: bool
    """Belongs to what follows: a comment, a decorator, a header such as ``def f():``, an opening bracket."""
    closes: bool
    """Belongs to what precedes: a closing bracket, a separator."""
    comment: bool
    """A leading comment, attribute or decorator."""
    fresh: bool
    """Starts or follows a definition that was too large to keep whole: never merged with what precedes it."""


class Units(NamedTuple):
    """Result of cutting a tree."""

    units: list[Unit]
    """The units, in order; together they hold all non-whitespace bytes of the file."""
    nodes: list[tuple[int, Node]]
    """(start, node): together they hold every leaf of the tree once."""


class _Pending(NamedTuple):
    node: Node | None
    """None for text that no child covers."""
    start: int
    end: int
    leads: bool
    closes: bool
    comment: bool
    expand: bool = False
    """The body of a node that is over budget: expanded even if it fits, so that the header keeps its first lines."""
    clauses: tuple[_Pending, ...] = ()
    """Nodes of a definition that is written in several ones."""


def syntax_units(
    tree: Tree,
    grammar: Grammar,
    text: SourceText,
    names: SpanNames,
    *,
    max_chars: int,
    merge_chars: int,
) -> Units:
    """Cut a file into units.

    Args:
        tree: Syntax tree of the file.
        grammar: Grammar of its language.
        text: Contents of the file.
        names: Definitions and scopes of the file: one that must be expanded starts a new run of units.
        max_chars: Largest size of a unit, in non-whitespace bytes.
        merge_chars: Largest size of a piece of a leaf or table that is cut, in non-whitespace bytes.

    Returns:
        Units, and the nodes that hold the leaves.
    """
    units: list[Unit] = []
    nodes: list[tuple[int, Node]] = []
    pending: list[_Pending | None] = []
    ink = text.ink_before
    fresh = False
    item: _Pending | None = _Pending(tree.root_node, 0, len(text.data), False, False, False)
    whole_limit = 0  # the root itself is no reason to keep a file in one piece
    while True:
        if item is None:
            fresh = True
        else:
            node, start, end, leads, closes, comment, expand, clauses = item
            if ink[end] - ink[start] <= whole_limit and not (expand and node and node.child_count):
                units.append(Unit(start, end, leads, closes, comment, fresh))
                nodes += ((each.start, each.node) for each in clauses or (item,) if each.node is not None)
                # The semicolon after a class still belongs to it.
                fresh = fresh and closes
            elif clauses:
                fresh = True
                pending.append(None)
                pending.extend(reversed(clauses))
            elif (
                node is None
                or not node.child_count
                or (_is_table(node, ink[end] - ink[start]) and not names.defines(start, end))
            ):
                for piece_start, piece_end in text.pieces(start, end, merge_chars):
                    units.append(Unit(piece_start, piece_end, leads and piece_end == end, False, comment, fresh))
                    fresh = False
                if node is not None:
                    nodes += ((child.start_byte, child) for child in node.children or [node])
            else:
                if whole_limit and (start, end) in names.ranges:
                    fresh = True
                    pending.append(None)
                children, empty = _children(node, start, end, grammar, text, names)
                pending.extend(reversed(children))
                nodes += ((child.start_byte, child) for child in empty)
                if not node.named_child_count:
                    nodes.append((start, node))
        whole_limit = max_chars
        if not pending:
            return Units(units, nodes)
        item = pending.pop()


def _is_table(node: Node, size: int) -> bool:
    """Return whether a node is a long list of tiny items, such as numbers, which is cut by lines."""
    return node.child_count > _TABLE_ITEMS and size < _TABLE_ITEM_CHARS * node.child_count


def _children(
    node: Node, start: int, end: int, grammar: Grammar, text: SourceText, names: SpanNames
) -> tuple[list[_Pending], list[Node]]:
    """Return the children of a node, and those of zero length.

    Text between children that is not whitespace becomes a piece of its own. Children that form one definition become
    one.
    """
    ink = text.ink_before
    body_start, torn = _body(node, start, grammar)
    found: list[_Pending] = []
    empty: list[Node] = []
    covered = start
    for child in node.children:
        child_start, child_end = child.byte_range
        child_start = max(child_start, covered)
        if child_end <= child_start:
            empty.append(child)
            continue
        if ink[child_start] > ink[covered]:
            found.append(_Pending(None, covered, child_start, False, False, False))
        comment = child.kind_id in grammar.leading_kinds or (child_start, child_end) in names.attributes
        closes = not child.is_named and text.data[child_start:child_end] in _CLOSERS
        leads = comment or child_start < body_start or not (closes or child.is_named)
        expand = (torn and child_start == body_start) or child.kind_id in grammar.list_kinds
        found.append(_Pending(child, child_start, child_end, leads, closes, comment, expand))
        covered = child_end
    if ink[end] > ink[covered]:
        found.append(_Pending(None, covered, end, False, False, False))
    return _join_clauses(found, names) if names.joined else found, empty


def _join_clauses(found: list[_Pending], names: SpanNames) -> list[_Pending]:
    """Return siblings, with clauses of one definition put together.

    In damaged text the last clause may lie inside of a sibling that ends behind it, which is then taken whole.
    """
    whole: list[_Pending] = []
    at = 0
    while at < len(found):
        first = found[at]
        end = names.joined.get(first.start, 0)
        after = at + 1
        while after < len(found) and found[after].start < end:
            after += 1
        if after - at > 1 and found[after - 1].end >= end:
            clauses = (first._replace(leads=True), *found[at + 1 : after])
            whole.append(_Pending(None, first.start, found[after - 1].end, False, False, False, clauses=clauses))
        else:
            whole += found[at:after]
        at = after
    return whole


def _body(node: Node, start: int, grammar: Grammar) -> tuple[int, bool]:
    """Return the start of what follows a node's header, and whether it is a body.

    It may also be a definition of its own, which a modifier such as ``export`` precedes.
    """
    for fields, torn in ((grammar.body_fields, True), (grammar.wrapped_fields, False)):
        for field in fields:
            body = node.child_by_field_id(field)
            if body is not None:
                return body.start_byte, torn
    if grammar.body_kinds:
        for child in node.children:
            if child.kind_id in grammar.body_kinds:
                return child.start_byte, True
    return start, False
