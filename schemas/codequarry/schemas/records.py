"""Records that pass between stages. Frozen; ranges are half-open in bytes and 0-based inclusive in lines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Definition:
    """A named syntax node: function, class, method, type, module …"""

    qualified_name: str
    """Dotted path of enclosing definitions within the file, e.g. ``Index.open``."""
    kind: str
    """One word: function, method, class, interface, struct, enum, trait, module, namespace, type, constant, macro."""
    start_byte: int
    end_byte: int

    @property
    def name(self) -> str:
        """The last segment of the qualified name."""
        return self.qualified_name.rsplit(".", 1)[-1]


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


@dataclass(frozen=True, slots=True)
class FileChunks:
    """What the chunker made of one file."""

    spans: tuple[ChunkSpan, ...]
    parsed: bool
    """False when the line-based fallback was used."""
    has_syntax_errors: bool = False
