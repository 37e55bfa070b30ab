"""Names at file and type level that shape no chunk: variables, fields, properties, enum members, prototypes.

The query of references captures each name that something binds, the functions that are scopes, and the declarations
around names. A name whose innermost container is a function is a local of it; any other is a member of the type or of
the file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING

from codequarry.pipelines.syntax.definitions.definitions import Outline
from codequarry.schemas.records import Definition

if TYPE_CHECKING:
    from tree_sitter import Node

    from codequarry.pipelines.syntax.grammars import Grammar

BOUND = "bound."
"""Start of the captures of names that something binds; the kind follows."""
_LOCAL = "local"
_MAY_BE_LOCAL = frozenset({_LOCAL, "variable", "constant", "function", "type"})
_OF_RECEIVER = "attribute"
"""Kind of a name that an assignment to a member of an object binds: a definition where that is the object itself."""
_PROMOTED = "promoted"
"""Kind of a parameter of a constructor that declares a property of the type."""
_RECEIVERS = (b"self.", b"this.", b"cls.")
_TYPES = frozenset({"class", "interface", "struct", "enum", "trait", "object", "impl"})
_CONTAINERS = _TYPES | {"module", "namespace"}
_KIND_IN_TYPE = {"variable": "property", "function": "method"}
_KIND_IN_PYTHON = {"variable": "attribute"}
HOISTING = frozenset({"python", "javascript", "typescript", "tsx"})
"""Grammars of languages in which a local is one of its whole function, also before it is bound."""
_MAX_NAME_BYTES = 200
_QUALIFIER = re.compile(rb"(?:\w+(?:<[^<>]*>)?::)+\Z")
_BRACKETS = re.compile(r"<[^<>]*>")
_MAX_STEPS = 64
"""Most declarations between a name and the start of its own that are looked at."""


@dataclass(frozen=True, slots=True)
class LocalNames:
    """Locals and parameters of a file, by name."""

    ranges: Mapping[str, tuple[Sequence[int], Sequence[int]]] = field(default_factory=dict)
    """Starts of the bytes in which a name is a local, ascending, and the furthest end of those up to each."""

    def hold(self, name: str, place: int) -> bool:
        """Return whether a name is a local at a place."""
        found = self.ranges.get(name)
        if found is None:
            return False
        at = bisect_right(found[0], place) - 1
        return at >= 0 and place < found[1][at]


@dataclass(frozen=True, slots=True)
class Bindings:
    """Names that a file binds besides those of its outline."""

    members: tuple[Definition, ...] = ()
    """Definitions at file and type level, by start and then outermost first."""
    locals: LocalNames = LocalNames()


def bindings(grammar: Grammar, captures: Mapping[str, Sequence[Node]], outline: Outline, data: bytes) -> Bindings:
    """Return the names that a file binds.

    Args:
        grammar: Grammar of the file.
        captures: Captures of the query of references.
        outline: Definitions of the file.
        data: Bytes of the file.

    Returns:
        Members of the file and of its types, and the locals of its functions.
    """
    bound = _bound(captures, data)
    for definition in outline.definitions:
        bound.pop(definition.name_byte, None)
    for start in outline.names:
        bound.pop(start, None)
    if not bound:
        return Bindings()
    parameters = sorted(node.byte_range for node in captures.get("parameters", ()))
    listed = [start for start, _ in parameters], list(accumulate((end for _, end in parameters), max))
    extents = _Extents(node.byte_range for node in captures.get("extent", ()))
    scopes = [node.byte_range for node in captures.get("scope", ())]
    containers = _Containers(outline, scopes)
    in_types = _KIND_IN_PYTHON if grammar.name == "python" else _KIND_IN_TYPE
    members: list[Definition] = []
    local: dict[str, list[tuple[int, int]]] = {}
    attributes: set[tuple[str, str]] = set()
    for start, (end, kind) in sorted(bound.items()):
        name = data[start:end].decode("utf-8", "replace")
        if kind != _LOCAL and kind in _MAY_BE_LOCAL and _covers(listed, start):
            kind = _LOCAL
        around, scope = containers.around(start)
        if kind == _OF_RECEIVER:
            of_object = data[max(start - 5, 0) : start].endswith(_RECEIVERS)
            around = containers.type_around() if scope is not None and of_object else None
            if scope is not None and (around is None or (around.qualified_name, name) in attributes):
                continue  # of some other object, or assigned before
            attributes.add((around.qualified_name if around else "", name))
            kind = kind if around else "property"
        elif kind == _PROMOTED:
            around, kind = containers.type_around(), "property"
        elif scope is not None:
            if kind in _MAY_BE_LOCAL and not (kind == "function" and grammar.name == "c"):  # a prototype
                local.setdefault(name, []).append(scope if grammar.name in HOISTING else (start, scope[1]))
            continue
        if kind == _LOCAL or not name:
            continue
        first, last = extents.around(start, end)
        if around is None and kind == "property":
            around = next((one for one in members[-1:-_MAX_STEPS:-1] if one.end_byte >= last and not one.parent), None)
        in_type = around is not None and around.kind in _TYPES
        if kind == "variable" and name.isupper():
            kind = "constant"
        kind = in_types.get(kind, kind) if in_type else kind
        parent = ".".join(filter(None, (around.qualified_name if around else "", _qualifier(data, start))))
        qualified = f"{parent}.{name}" if parent else name
        members.append(Definition(qualified, kind, first, last, name, parent, start, last, (0, 0)))
    containers = _Containers(outline, scopes)
    for node in sorted(captures.get("global", ()), key=attrgetter("start_byte")):
        _, scope = containers.around(node.start_byte)
        if ranges := local.get(data[slice(*node.byte_range)].decode("utf-8", "replace")):
            ranges[:] = [one for one in ranges if one != scope]
    members.sort(key=lambda one: (one.start_byte, -one.end_byte, one.name_byte))
    return Bindings(tuple(members), LocalNames({name: _ranges(scopes) for name, scopes in local.items() if scopes}))


def _bound(captures: Mapping[str, Sequence[Node]], data: bytes) -> dict[int, tuple[int, str]]:
    """Return (end, kind) of the bound names by start; of two kinds of a name, what is no local wins."""
    found: dict[int, tuple[int, str]] = {}
    for capture, nodes in captures.items():
        if not capture.startswith(BOUND):
            continue
        kind = capture[len(BOUND) :]
        for node in nodes:
            start, end = node.byte_range
            start += data[start] == ord(":")  # a symbol of Ruby
            if end - start <= _MAX_NAME_BYTES and (kind != _LOCAL or start not in found):
                found[start] = end, kind
    return found


def _qualifier(data: bytes, start: int) -> str:
    """Return a prefix such as ``Stack<T>::`` of a name with dots; "" for none."""
    if data[start - 1 : start] != b":":
        return ""
    qualifier = _QUALIFIER.search(data, max(start - _MAX_NAME_BYTES, 0), start)
    if qualifier is None:
        return ""
    return _BRACKETS.sub("", qualifier[0].decode("utf-8", "replace")).replace("::", ".").rstrip(".")


def _covers(listed: tuple[list[int], list[int]], place: int) -> bool:
    at = bisect_right(listed[0], place) - 1
    return at >= 0 and place < listed[1][at]


def _ranges(scopes: Iterable[tuple[int, int]]) -> tuple[Sequence[int], Sequence[int]]:
    """Return starts of scopes and the furthest ends up to each."""
    found = sorted(set(scopes))
    return [start for start, _ in found], list(accumulate((end for _, end in found), max))


class _Extents:
    """Declarations, by start."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._ranges = sorted(set(ranges), key=lambda one: (one[0], -one[1]))
        self._starts = [start for start, _ in self._ranges]

    def around(self, start: int, end: int) -> tuple[int, int]:
        """Return the innermost declaration around a name; the name itself without one."""
        at = bisect_right(self._starts, start)
        for place in range(at - 1, max(at - 1 - _MAX_STEPS, -1), -1):
            if self._ranges[place][1] >= end:
                return self._ranges[place]
        return start, end


class _Containers:
    """Types, modules and functions around places that are asked for in ascending order."""

    def __init__(self, outline: Outline, scopes: Iterable[tuple[int, int]]) -> None:
        types = (one for one in (*outline.definitions, *outline.scopes) if one.kind in _CONTAINERS)
        # A type that begins and ends with a function lies in it, as in Zig.
        entries: list[tuple[int, int, int, Definition | None]] = [
            *((start, -end, 0, None) for start, end in scopes),
            *((one.start_byte, -one.end_byte, 1, one) for one in types),
        ]
        self._entries = sorted(entries, key=lambda one: one[:3])
        self._next = 0
        self._open: list[tuple[int, int, Definition | None]] = []

    def around(self, place: int) -> tuple[Definition | None, tuple[int, int] | None]:
        """Return (innermost type or module, None), or (None, range of the function) where a function is nearer."""
        while self._next < len(self._entries) and self._entries[self._next][0] <= place:
            start, minus_end, _, definition = self._entries[self._next]
            while self._open and self._open[-1][1] <= start:
                self._open.pop()
            self._open.append((start, -minus_end, definition))
            self._next += 1
        while self._open and self._open[-1][1] <= place:
            self._open.pop()
        if not self._open:
            return None, None
        start, end, definition = self._open[-1]
        return (definition, None) if definition is not None else (None, (start, end))

    def type_around(self) -> Definition | None:
        """Return the innermost type around the last place, also from inside of a function."""
        return next((one for _, _, one in reversed(self._open) if one is not None and one.kind in _TYPES), None)
