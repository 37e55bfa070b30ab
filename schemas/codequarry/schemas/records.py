"""Records that pass between stages. Frozen; ranges are half-open in bytes and 0-based inclusive in lines.

Records that a file has thousands of are named tuples: they are made, sent between processes and turned into rows at a
fraction of the cost of a frozen dataclass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Definition:
    """A named syntax node, such as a function, class, method, type or module."""

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
    """Qualified name of the definition that it belongs to; "" when there is none."""
    name_byte: int
    """Place where the name is written."""
    body_byte: int
    """First byte of the body; ``end_byte`` when there is none."""
    docstring: tuple[int, int]
    """Byte range of the string that documents it from inside; (0, 0) when there is none."""


class Leading(NamedTuple):
    """A comment, or an attribute or decorator, which may belong to the definition after it."""

    start: int
    end: int
    is_comment: bool
    is_attribute: bool
    """It stands apart from the definition's own first line, unlike the parameters of a C++ template."""
    doc: tuple[int, int] = (0, 0)
    """Byte range of the string in it that documents what follows; (0, 0) when there is none."""


class AstNode(NamedTuple):
    """A definition as a row of the ``ast_nodes`` table."""

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


class Reference(NamedTuple):
    """An identifier that names something without defining it."""

    name: str
    role: str
    """call, import, type or other."""
    start_byte: int
    start_line: int
    start_column: int
    """UTF-8 bytes from the start of the line."""


@dataclass(frozen=True, slots=True)
class References:
    """The references of a file by start: a tuple for each field of `Reference`.

    A file has 25 of them for each chunk. As columns they pass from a worker into a table without a record of each.
    """

    names: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    start_bytes: tuple[int, ...] = ()
    start_lines: tuple[int, ...] = ()
    start_columns: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Reference]:
        return map(Reference, self.names, self.roles, self.start_bytes, self.start_lines, self.start_columns)


class Import(NamedTuple):
    """One thing a file imports."""

    source: str
    """Module, package, type, path or specifier, as written. Rust paths and Ruby's ``require_relative`` begin with the
    place they are relative to."""
    names: tuple[tuple[str, str], ...] = ()
    """(name there, name here) of each imported name; "*" for everything. None when the source names it all."""


class ModuleFacts(NamedTuple):
    """Facts that a file states about itself as a module, without looking at any other file."""

    package: str
    """Package or namespace that it declares, dotted; "" when the language has no such declaration."""
    doc: str
    """Documentation at its top; "" when none."""
    imports: tuple[Import, ...]
    """The definitions, in the order of the file."""
    exports: tuple[str, ...]
    """Names it offers to others, in the order of the file."""
    defined: tuple[str, ...]
    """Qualified names by which imports reach its definitions, in languages whose imports name those, not files."""
    branches: int
    """Decision points."""
    code_lines: int
    comment_lines: int
    """Lines that hold nothing but comment or documentation."""
    entry_point: bool
    only_imports: bool
    """It holds imports, exports of what it imports, comments, and nothing else."""


class ChunkSpan(NamedTuple):
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
    comment_percent: int
    """Share of comments and documentation in its non-whitespace bytes, 0 to 100."""
    symbols: tuple[str, ...]
    """Qualified names of the definitions that *start* in this span, in file order."""
    leaf_kinds: tuple[tuple[str, int], ...] = ()
    """(kind, count) of the named syntax nodes without named children that start in this span, by kind."""


@dataclass(frozen=True, slots=True)
class FileChunks:
    """Results of the chunker for one file."""

    spans: tuple[ChunkSpan, ...]
    parsed: bool
    """False when the line-based fallback was used."""
    has_syntax_errors: bool = False
    ast_nodes: tuple[AstNode, ...] = ()
    """The definitions of the file by start, and then outermost first; none in the line-based fallback."""
    members: tuple[AstNode, ...] = ()
    """Other names at file and type level, such as fields and variables, in the same order."""
    references: References = References()
    """The identifiers of the file that define nothing, by start; none in the line-based fallback."""
    module: ModuleFacts | None = None
    """None in the line-based fallback, and for data and markup."""
    fallback: str = ""
    """Reason of the line-based fallback where the language has a grammar; else ""."""
