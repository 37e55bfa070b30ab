"""Bounded parsing, and the definitions of a syntax tree with their qualified names."""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codequarry.schemas.records import Definition

if TYPE_CHECKING:
    from tree_sitter import Point, Tree

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
_MAX_NAME_CHARS = 200
# Beyond it the path starts anew: thousands of nested definitions would otherwise cost their depth squared in names.
_MAX_PARENT_CHARS = 300

_CLASS_LIKE = frozenset({"class", "interface", "struct", "enum", "trait", "impl"})
_NOT_QUALIFYING = frozenset({"type", "constant", "macro"})


@dataclass(frozen=True, slots=True)
class Outline:
    """The named structure of one file, each list ordered by start and then outermost first."""

    definitions: tuple[Definition, ...]
    scopes: tuple[Definition, ...]
    """Containers that qualify names without being definitions, e.g. kind ``impl``, ``object`` or ``namespace``."""


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


def parse(grammar: Grammar, data: bytes) -> Tree | None:
    """The syntax tree of a file, or None when parsing it takes more than its budget of steps and CPU time.

    One parser step cannot be interrupted and can allocate gigabytes on hostile input (a deep unfinished expression at
    the end of the file), so untrusted repositories belong in worker processes with a memory limit.
    """
    from tree_sitter import Parser

    def read(offset: int, _point: Point) -> bytes:
        return data[offset : offset + _READ_BYTES]

    budget = _Budget(len(data))
    try:
        return Parser(grammar.language).parse(read, progress_callback=budget)
    except ValueError:
        # The binding reports a cancelled parse this way and no other.
        if budget.exhausted:
            return None
        raise


def outline(grammar: Grammar, tree: Tree, data: bytes) -> Outline:
    """Definitions and scopes of a tree."""
    from tree_sitter import QueryCursor

    found: dict[tuple[int, int, int], tuple[int, str, bytes]] = {}
    for pattern, captures in QueryCursor(grammar.query, match_limit=_MATCH_LIMIT).matches(tree.root_node):
        names = captures.pop("name", None)
        if not names:
            continue
        written = names[0]
        text = data[written.start_byte : written.end_byte]
        qualifiers = captures.pop("qualifier", None)
        if qualifiers:
            text = data[qualifiers[0].start_byte : qualifiers[0].end_byte] + b"." + text
        for capture, nodes in captures.items():
            node = nodes[0]
            key = (node.start_byte, -node.end_byte, written.start_byte)
            earlier = found.get(key)
            if earlier is None or pattern < earlier[0]:
                found[key] = (pattern, capture, text)
    return _qualified(
        [
            (start, len(data) if pattern in grammar.open_patterns else -minus_end, capture, clean_name(text))
            for (start, minus_end, _), (pattern, capture, text) in sorted(found.items())
        ]
    )


def _qualified(entries: list[tuple[int, int, str, str]]) -> Outline:
    """Give every (start, end, capture, own name) its dotted path and final kind."""
    definitions: list[Definition] = []
    scopes: list[Definition] = []
    enclosing: list[Definition] = []
    for start, end, capture, name in entries:
        while enclosing and enclosing[-1].end_byte <= start:
            enclosing.pop()
        role, kind = capture.split(".")
        parent = enclosing[-1] if enclosing else None
        if kind == "function" and ("::" in name or (parent is not None and parent.kind in _CLASS_LIKE)):
            kind = "method"
        name = name.replace("::", ".")
        nested = parent is not None and len(parent.qualified_name) < _MAX_PARENT_CHARS
        here = Definition(f"{parent.qualified_name}.{name}" if parent and nested else name, kind, start, end)
        (definitions if role == "definition" else scopes).append(here)
        if kind not in _NOT_QUALIFYING:
            enclosing.append(here)
    return Outline(tuple(definitions), tuple(_holding(scopes, definitions)))


def _holding(scopes: list[Definition], definitions: list[Definition]) -> list[Definition]:
    """The scopes in which a definition starts; a plain object literal is not structure."""
    starts = [definition.start_byte for definition in definitions]
    nexts = (bisect_left(starts, scope.start_byte) for scope in scopes)
    return [scope for scope, at in zip(scopes, nexts, strict=True) if at < len(starts) and starts[at] < scope.end_byte]


_BRACKETS = re.compile(r"<[^<>]*>")
_WORD = re.compile(r"\w")
_OPERATOR = re.compile(r"\boperator\b")
_QUOTES = "[]()\"'`*&"
_SPACE = re.compile(r"\s+")
_EXPORTS = re.compile(r"^(?:module\.)?(?:exports|this)\.")
_PATH = re.compile(r"[\w$#~!?=]+(?:(?:\.|::)[\w$#~!?=]+)*")


def clean_name(written: bytes) -> str:
    """A name as written in the source, reduced to identifiers joined by ``.`` or, in C++ and Ruby, ``::``.

    >>> clean_name(b"Stack<T>::push"), clean_name(b"exports.open"), clean_name(b"Repo.prototype.open")
    ('Stack::push', 'open', 'Repo.open')
    """
    name = written[: 4 * _MAX_NAME_CHARS].decode("utf-8", "replace")
    if name.isidentifier():
        return name[:_MAX_NAME_CHARS]
    if not _WORD.search(name):
        # Operators as names: Ruby's ``<=>`` and ``[]=``.
        return name
    head, *operator = _OPERATOR.split(name, maxsplit=1)
    if operator:
        return _SPACE.sub("", _BRACKETS.sub("", head)) + "operator" + _SPACE.sub(" ", operator[0])[:_MAX_NAME_CHARS]
    stripped = _BRACKETS.sub("", name)
    while stripped != name:
        name, stripped = stripped, _BRACKETS.sub("", stripped)
    name = _SPACE.sub("", name).replace(".prototype.", ".").removeprefix("::")
    name = _EXPORTS.sub("", name)
    if not _PATH.fullmatch(name):
        # Computed names and quoted keys: ``[Symbol.iterator]``, ``"content-type"``, ``make().handler``.
        name = name.strip(_QUOTES) if name[:1] in _QUOTES else name.rsplit(".", 1)[-1]
    return name[:_MAX_NAME_CHARS] or written.decode("utf-8", "replace")[:_MAX_NAME_CHARS]
