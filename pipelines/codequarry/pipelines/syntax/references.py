"""Identifiers that name something without defining it, by the syntax around them.

They answer "who uses it" where no SCIP indexer ran: names, not resolved symbols.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from codequarry.pipelines.syntax.definitions.definitions import Outline
from codequarry.pipelines.syntax.definitions.members import HOISTING, Bindings
from codequarry.pipelines.syntax.parsing import MENTION_LIMIT, query_captures
from codequarry.pipelines.syntax.text import SourceText
from codequarry.schemas.records import References

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

    from codequarry.pipelines.syntax.grammars import Grammar

MAX_NAME_BYTES = 200
_MEMBER = re.compile(rb"(?:(?<!\.)\.|->|::)\Z")
"""Text before a name of a member, and not in front of a range or a spread (``..``)."""
_NO_LOCALS = frozenset({"type", "import"})
_CALLS_APART = frozenset({"java", "kotlin", "ruby", "scala", "swift"})
"""Grammars of languages in which a call means a method or function although a local has its name."""
_byte_range, _start = attrgetter("byte_range"), itemgetter(0)
_ROLES = {"name": "other", "type": "type", "call": "call"}
"""Role by capture; of several captures of one identifier the last here wins."""


def mention_captures(grammar: Grammar, tree: Tree) -> dict[str, list[Node]]:
    """Return the identifiers of a tree, and what binds them, by capture; nothing for data and markup."""
    return {} if grammar.references is None else query_captures(grammar.references, tree, MENTION_LIMIT)


def references(
    grammar: Grammar,
    captures: Mapping[str, Sequence[Node]],
    outline: Outline,
    bound: Bindings,
    text: SourceText,
    macros: Sequence[tuple[int, int]] = (),
) -> References:
    """Return the identifiers of a tree by start, without names of definitions, locals and parameters.

    Args:
        grammar: Grammar of the file.
        captures: Result of `mention_captures`.
        outline: Definitions of the file.
        bound: Its members and locals.
        text: Text of the file.
        macros: Bytes of names that are not in the tree, because macros around declarations were blanked out.

    Returns:
        The references.
    """
    if not captures and not macros:
        return References()
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
    for definition in (*outline.definitions, *bound.members):
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
    if hidden := set(_locals(grammar, captures, bound, text.data, starts, names, roles)):
        kept = [at for at in range(len(starts)) if at not in hidden]
        starts, names, roles = ([column[at] for at in kept] for column in (starts, names, roles))
    lines, columns = text.places_at(starts)
    return References(tuple(names), tuple(roles), tuple(starts), tuple(lines), tuple(columns))


def _locals(
    grammar: Grammar,
    captures: Mapping[str, Sequence[Node]],
    bound: Bindings,
    data: bytes,
    starts: Sequence[int],
    names: Sequence[str],
    roles: Sequence[str],
) -> Iterator[int]:
    """Yield the numbers of the identifiers that name a local or a parameter.

    A type or an import never does. A call may stand in the declaration of a local of its name (``item := item()``), so
    that what is bound on its own line does not count.
    """
    known = bound.locals.ranges
    outer = {node.start_byte for node in captures.get("outer", ())}
    apart, hoisting = grammar.name in _CALLS_APART, grammar.name in HOISTING
    for number, name in enumerate(names if known else ()):
        if name not in known:
            continue
        start, role = starts[number], roles[number]
        if role in _NO_LOCALS or (role == "call" and apart) or start in outer:
            continue
        place = start if hoisting or role != "call" else data.rfind(b"\n", 0, start) + 1
        if bound.locals.hold(name, place) and _MEMBER.search(data, max(start - 2, 0), start) is None:
            yield number
