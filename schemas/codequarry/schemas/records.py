"""Records that pass between stages. Frozen; ranges are half-open in bytes and 0-based inclusive in lines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Definition:
    """A named syntax node: function, class, method, type, module …"""

    qualified_name: str
    """Dotted path of enclosing definitions within the file, e.g. ``Index.open``."""
    kind: str
    """One word: function, method, class, interface, struct, enum, trait, object, module, namespace, type, constant,
    macro; table and view in SQL; key, section, element and rule in data and markup."""
    start_byte: int
    end_byte: int
    name: str
    """Its own name: the end of the qualified name."""
    parent: str
    """Qualified name of what it is defined in or for; "" when none."""
    name_byte: int
    """Where the name is written."""
    body_byte: int
    """Where the body starts; ``end_byte`` when there is none."""
    docstring: tuple[int, int]
    """Byte range of the string that documents it from inside; (0, 0) when there is none."""


@dataclass(frozen=True, slots=True)
class AstNode:
    """A definition as the ``ast_nodes`` table tells it."""

    qualified_name: str
    name: str
    kind: str
    start_byte: int
    end_byte: int
    start_line: int
    end_line: int
    name_start_byte: int
    name_start_line: int
    name_start_column: int
    """UTF-8 bytes from the start of the line to the name."""
    signature: str
    doc: str
    parent: str


@dataclass(frozen=True, slots=True)
class Reference:
    """An identifier that names something without defining it."""

    name: str
    role: str
    """call, import, type or other."""
    start_byte: int
    start_line: int
    start_column: int
    """UTF-8 bytes from the start of the line."""


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """A contiguous byte range of one file. The spans of a file partition ``[0, size)`` in order."""

    start_byte: int
    end_byte: int
    start_line: int
    """0-based line holding the first byte."""
    end_line: int
    """0-based line holding the last byte (inclusive)."""
    qualified_name: str
    """The single definition the span is or lies inside of; "" for top-level code or a merge of several definitions."""
    kind: str
    """Kind of that definition; "block" for a merge of several, "text" for the line-based fallback."""
    symbols: tuple[str, ...]
    """Qualified names of the definitions that *start* in this span, in file order."""
    leaf_kinds: tuple[tuple[str, int], ...] = ()
    """(kind, count) of the named syntax nodes without named children that start in this span, by kind."""


@dataclass(frozen=True, slots=True)
class FileChunks:
    """What the chunker made of one file."""

    spans: tuple[ChunkSpan, ...]
    parsed: bool
    """False when the line-based fallback was used."""
    has_syntax_errors: bool = False
    ast_nodes: tuple[AstNode, ...] = ()
    """The definitions of the file by start, and then outermost first; none in the line-based fallback."""
    references: tuple[Reference, ...] = ()
    """The identifiers of the file that define nothing, by start; none in the line-based fallback."""
