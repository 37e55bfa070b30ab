"""Bounded parsing, and the definitions of a syntax tree with their qualified names."""

from __future__ import annotations

import dataclasses
import re
import time
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codequarry.pipelines.clauses import Entry, Found, join_clauses
from codequarry.pipelines.definition_names import clean_name, last_segment, literal_name, type_head
from codequarry.schemas.records import Definition, Leading

if TYPE_CHECKING:
    from tree_sitter import Node, Point, Tree

    from codequarry.pipelines.grammars import Grammar

# Legitimate code needs 4 to 60 progress reports per KiB. Counting them is reproducible; the clock only catches the rare
# input whose single steps are slow, and it grows with the file so that large sane files are not cut off.
_STEPS = 2_000
_STEPS_PER_KIB = 256
_SECONDS = 2.0
_SECONDS_PER_MIB = 1.0

# Half-matched patterns are revisited at every node: this keeps thousands of nested functions from costing quadratic
# time. (The cursor's own progress callback crashes in the 0.26.1 binding.)
_MATCH_LIMIT = 4_096

# Small, because query predicates read a node's text through the same callback, one block for each look.
_READ_BYTES = 1 << 12
# Beyond it the path starts anew: thousands of nested definitions would otherwise cost their depth squared in names.
_MAX_PARENT_CHARS = 300

_INDICATOR = re.compile(rb"[-?:](?:\s|$)")
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
    """Where else the names of definitions are written: in clauses after the first."""
    joined: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """The end, by its start, of each definition that is written in several clauses."""


class _Budget:
    """Progress callback that asks the parser to stop after a number of steps or CPU-seconds."""

    def __init__(self, size: int) -> None:
        self.steps = _STEPS + _STEPS_PER_KIB * size // 1024
        self.deadline = time.thread_time() + _SECONDS + _SECONDS_PER_MIB * size / 2**20
        self.exhausted = False

    def __call__(self, *_progress: object) -> bool:
        self.steps -= 1
        self.exhausted = self.steps < 0 or time.thread_time() > self.deadline
        return self.exhausted


class _Source:
    """The callback through which the parser, and later the predicates of a query, read a file.

    The 0.26.1 binding keeps what the callback returns to the parser for good, which would be the file: so those blocks
    are emptied after the parse. For predicates it takes bytes alone, and gives them back.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._blocks: list[bytearray] | None = []

    def __call__(self, offset: int, _point: Point) -> bytes | bytearray:
        if self._blocks is None:
            return self._data[offset : offset + _READ_BYTES]
        block = bytearray(self._data[offset : offset + _READ_BYTES] if offset else self._data)
        self._blocks.append(block)
        return block

    def parsed(self) -> None:
        """Empty what the parser was given."""
        for block in self._blocks or ():
            block.clear()
        self._blocks = None


def parse(grammar: Grammar, data: bytes) -> Tree | None:
    """The syntax tree of a file, or None when it is too deep or takes more than its budget of steps and CPU time.

    One parser step cannot be interrupted and can allocate gigabytes on hostile input (a deep unfinished expression at
    the end of the file), so untrusted repositories belong in worker processes with a memory limit.
    """
    from tree_sitter import Parser

    if grammar.max_line_depth is not None and _line_depth(data, grammar.max_line_depth) > grammar.max_line_depth:
        return None

    source = _Source(_decodable(data))
    budget = _Budget(len(data))
    try:
        return Parser(grammar.language).parse(source, progress_callback=budget)
    except ValueError:
        # The binding reports a cancelled parse this way and no other.
        if budget.exhausted:
            return None
        raise
    finally:
        source.parsed()


def _decodable(data: bytes) -> bytes:
    """The bytes, and a question mark for each that is no UTF-8: the binding's text predicates end the process over it.

    >>> _decodable(b"caf\\xe9 = 1")
    b'caf? = 1'
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        escaped = data.decode("utf-8", "surrogateescape")
        return _ESCAPED.sub("?", escaped).encode()
    return data


_ESCAPED = re.compile("[\udc80-\udcff]")


def _line_depth(data: bytes, limit: int) -> int:
    """The most levels that indentation and indicators (``-``, ``?``, ``:``) can open on one line, if over a limit."""
    long_lines = re.finditer(rb"[^\r\n]{%d,}" % limit, data)
    return max(
        (len(line[0]) - len(line[0].lstrip()) + len(_INDICATOR.findall(line[0])) for line in long_lines), default=0
    )


def outline(grammar: Grammar, tree: Tree, data: bytes) -> Outline:
    """Definitions and scopes of a tree."""
    from tree_sitter import QueryCursor

    found: dict[tuple[int, int, int], Found] = {}
    leading: dict[tuple[int, int], Leading] = {}
    inside: list[tuple[int, int]] = []
    for pattern, captures in QueryCursor(grammar.query, match_limit=_MATCH_LIMIT).matches(tree.root_node):
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
        text = data[written.start_byte : written.end_byte]
        if "head" in captures:
            text = type_head(text)
        literal = grammar.literal_names or "text" in captures or ("head" in captures and not text[:1].isalpha())
        name = literal_name(text) if literal else clean_name(text)
        own = name if literal else last_segment(name)
        if not own:  # an empty key, or a name that the parser missed in broken source: nothing can be called so
            continue
        qualifiers = captures.get("qualifier")
        if qualifiers:
            name = f"{clean_name(data[qualifiers[0].start_byte : qualifiers[0].end_byte])}.{name}"
        name_byte = max(data.rfind(own.encode(), written.start_byte, written.end_byte), written.start_byte)
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
                    body = _body(node, grammar)
                doc = docstring_range(body) if body and grammar.docstrings else (0, 0)
                end = body.start_byte if body else node.end_byte
                found[key] = Found(pattern, capture, name, name_byte, end, doc, literal, arity)
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
    """The entries, each with the first of some strings that lies in it and in none of those within it."""
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


def _body(node: Node, grammar: Grammar) -> Node | None:
    """The body of a definition, or of the function or type that it gives a name to."""
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
    """The byte range of the string a body begins with; (0, 0) when it begins with something else."""
    statement = body.named_child(0) if body.named_child_count else None
    while statement is not None and statement.type == "comment":
        statement = statement.next_named_sibling
    if statement is not None and statement.type == "expression_statement" and statement.child_count == 1:
        string = statement.child(0)
        if string is not None and string.type in ("string", "concatenated_string"):
            return string.byte_range
    return 0, 0


def _qualified(entries: list[Entry]) -> tuple[tuple[Definition, ...], tuple[Definition, ...]]:
    """Give every (start, end, found) its dotted path and final kind; returns definitions and scopes."""
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
    """The scopes in which a definition starts; a plain object literal is not structure."""
    starts = [definition.start_byte for definition in definitions]
    nexts = (bisect_left(starts, scope.start_byte) for scope in scopes)
    return [scope for scope, at in zip(scopes, nexts, strict=True) if at < len(starts) and starts[at] < scope.end_byte]
