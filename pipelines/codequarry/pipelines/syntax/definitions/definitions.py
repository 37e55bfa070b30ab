"""The definitions of a syntax tree with their qualified names.

Haskell and Elixir define a function case by case. Neighbours that define the same name, with nothing but comments,
attributes and pragmas between them, are one definition; so is a signature with what follows it.
"""

from __future__ import annotations

import dataclasses
import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from codequarry.pipelines.syntax.definitions.names import clean_name, last_segment, literal_name, type_head
from codequarry.pipelines.syntax.parsing import DEFINITION_LIMIT, query_matches
from codequarry.schemas.records import Definition, Leading

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

    from codequarry.pipelines.syntax.grammars import Grammar

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


# Longer paths start anew: names of thousands of nested definitions would otherwise take the square of their depth.
_MAX_PARENT_CHARS = 300

# Names are cut far below this; a name that is a whole expression is neither copied nor searched in full.
_MAX_WRITTEN_BYTES = 1 << 12

_CLASS_LIKE = frozenset({"class", "interface", "struct", "enum", "trait", "object", "impl"})
_NOT_QUALIFYING = frozenset({"type", "constant", "macro"})


@dataclass(frozen=True, slots=True)
class Outline:
    """The named structure of one file, each list ordered by start and then outermost first."""

    definitions: tuple[Definition, ...]
    scopes: tuple[Definition, ...]
    """Containers that qualify names without being definitions, e.g. kind ``impl``, ``object`` or ``namespace``."""
    leading: tuple[Leading, ...]
    """Comments and attributes by start."""
    names: frozenset[int] = frozenset()
    """Positions of the names of definitions in clauses after the first."""
    joined: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """The end, by its start, of each definition that is written in several clauses."""


def outline(grammar: Grammar, tree: Tree, data: bytes) -> Outline:
    """Return definitions and scopes of a tree."""
    found: dict[tuple[int, int, int], CapturedDefinition] = {}
    leading: dict[tuple[int, int], Leading] = {}
    inside: list[tuple[int, int]] = []
    bodies = _Bodies(grammar)
    for pattern, captures in query_matches(grammar.query, tree, DEFINITION_LIMIT):
        names = captures.get("name") or captures.get("head") or captures.get("text")
        if not names:
            inside += (node.byte_range for node in captures.get("inside", ()))
            doc = captures["doc"][0].byte_range if "doc" in captures else (0, 0)
            for node in captures.get("attribute", ()):
                if doc[1] or node.byte_range not in leading:
                    leading[node.byte_range] = Leading(*node.byte_range, False, True, doc)
            for node in captures.get("leading", ()):
                leading[node.byte_range] = _leading(node, grammar)
            continue
        written = names[0]
        text = data[written.start_byte : min(written.end_byte, written.start_byte + _MAX_WRITTEN_BYTES)]
        if "head" in captures:
            text = type_head(text)
        literal = grammar.literal_names or "text" in captures or ("head" in captures and not text[:1].isalpha())
        name = literal_name(text) if literal else clean_name(text)
        own = name if literal else last_segment(name)
        if not own:  # an empty key, or a name that the parser missed in broken source
            continue
        qualifiers = captures.get("qualifier")
        if qualifiers:
            first, last = qualifiers[0].byte_range
            name = f"{clean_name(data[first : min(last, first + _MAX_WRITTEN_BYTES)])}.{name}"
        tail = max(written.start_byte, written.end_byte - _MAX_WRITTEN_BYTES)
        name_byte = max(data.rfind(own.encode(), tail, written.end_byte), written.start_byte)
        arity = captures["parameters"][0].named_child_count if "parameters" in captures else 0
        for capture, nodes in captures.items():
            if "." not in capture:
                continue
            node = nodes[0]
            key = (node.start_byte, -node.end_byte, written.start_byte)
            earlier = found.get(key)
            if earlier is None or pattern < earlier.pattern:
                body = captures["body"][0] if "body" in captures else None
                if body is None and capture != "definition.key":
                    body = bodies.of(node)
                doc = bodies.docstring(body) if body and grammar.docstrings else (0, 0)
                end = body.start_byte if body else node.end_byte
                found[key] = CapturedDefinition(pattern, capture, name, name_byte, end, doc, literal, arity)
    entries = [
        (start, len(data) if entry.pattern in grammar.open_patterns else -minus_end, entry)
        for (start, minus_end, _), entry in sorted(found.items())
    ]
    around = sorted(leading.values())
    if inside:
        entries = _documented(entries, inside)
    if not grammar.clauses:
        return Outline(*_qualified(entries), tuple(around))
    entries, other_names, joined = join_clauses(entries, around, data)
    return Outline(*_qualified(entries), tuple(around), other_names, joined)


def _documented(entries: list[Entry], inside: list[tuple[int, int]]) -> list[Entry]:
    """Return the entries, each with the first of the given strings that lies in it but not in a nested entry."""
    documented = list(entries)
    enclosing: list[int] = []
    at = 0
    for start, end in sorted(inside):
        while at < len(entries) and entries[at][0] <= start:
            enclosing.append(at)
            at += 1
        while enclosing and entries[enclosing[-1]][1] < end:
            enclosing.pop()
        if enclosing and not documented[enclosing[-1]][2].doc[1]:
            first, last, entry = documented[enclosing[-1]]
            documented[enclosing[-1]] = (first, last, entry._replace(doc=(start, end)))
    return documented


def _leading(node: Node, grammar: Grammar) -> Leading:
    kind = node.kind_id
    return Leading(node.start_byte, node.end_byte, kind in grammar.comment_kinds, kind in grammar.attribute_kinds)


class _Bodies:
    """Bodies and docstrings of nodes, cached by node: one statement may declare a thousand names."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._bodies: dict[int, Node | None] = {}
        self._docstrings: dict[int, tuple[int, int]] = {}

    def of(self, node: Node) -> Node | None:
        """Return the body of a definition, or None."""
        if node.id not in self._bodies:
            self._bodies[node.id] = _body(node, self._grammar)
        return self._bodies[node.id]

    def docstring(self, body: Node) -> tuple[int, int]:
        """Return the result of `docstring_range`."""
        if body.id not in self._docstrings:
            self._docstrings[body.id] = docstring_range(body)
        return self._docstrings[body.id]


def _body(node: Node, grammar: Grammar) -> Node | None:
    """Return the body of a definition, or of the function or type that it names."""
    for _ in range(3):
        for field in grammar.body_fields:
            body = node.child_by_field_id(field)
            if body is not None:
                return body
        if grammar.body_kinds:
            for child in node.children:
                if child.kind_id in grammar.body_kinds:
                    return child
        values = (node.child_by_field_id(field) for field in grammar.value_fields)
        inner = next((value for value in values if value is not None), None)
        if inner is None and node.named_child_count == 1:
            inner = node.named_child(0)
        if inner is None:
            return None
        node = inner
    return None


def docstring_range(body: Node) -> tuple[int, int]:
    """Return the byte range of the string a body begins with; (0, 0) when it begins with something else."""
    # Finding the next sibling of a node walks over all before it; a cursor remembers its position.
    cursor = body.walk()
    statement = cursor.node if cursor.goto_first_child() else None
    while statement is not None and (statement.type == "comment" or not statement.is_named):
        statement = cursor.node if cursor.goto_next_sibling() else None
    if statement is not None and statement.type == "expression_statement" and statement.child_count == 1:
        string = statement.child(0)
        if string is not None and string.type in ("string", "concatenated_string"):
            return string.byte_range
    return 0, 0


def _qualified(entries: list[Entry]) -> tuple[tuple[Definition, ...], tuple[Definition, ...]]:
    """Give every (start, end, found) its dotted path and final kind, and return definitions and scopes."""
    definitions: list[Definition] = []
    scopes: list[Definition] = []
    enclosing: list[Definition] = []
    for start, end, found in entries:
        while enclosing and enclosing[-1].end_byte <= start:
            enclosing.pop()
        role, kind = found.capture.split(".")
        outer = enclosing[-1] if enclosing else None
        in_class = outer is not None and outer.kind in _CLASS_LIKE and not found.literal
        if kind == "function" and ("::" in found.name or in_class):
            kind = "method"
        # Scala has an operator ``::``.
        literal = found.literal
        written = found.name if literal or found.name == "::" else found.name.replace("::", ".")
        nested = outer is not None and len(outer.qualified_name) < _MAX_PARENT_CHARS
        qualified = f"{outer.qualified_name}.{written}" if outer and nested else written
        name = written if literal else last_segment(written)
        parent = qualified[: -len(name) - 1] if nested or name != written else outer.qualified_name if outer else ""
        here = Definition(qualified, kind, start, end, name, parent, found.name_byte, found.body_byte, found.doc)
        (definitions if role == "definition" else scopes).append(here)
        if kind not in _NOT_QUALIFYING:
            enclosing.append(here)
    return tuple(definitions), tuple(_holding(scopes, definitions))


def _holding(scopes: list[Definition], definitions: list[Definition]) -> list[Definition]:
    """Return the scopes in which a definition starts; a plain object literal is not structure."""
    starts = [definition.start_byte for definition in definitions]
    nexts = (bisect_left(starts, scope.start_byte) for scope in scopes)
    return [scope for scope, at in zip(scopes, nexts, strict=True) if at < len(starts) and starts[at] < scope.end_byte]
