"""Rows of the symbol tables: definitions, and places that name them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from codequarry.schemas.catalog.symbol_views import DEFINITION

MAX_FOUND = 100
"""Definitions of one question that are read; further ones are counted."""


class SymbolRow(NamedTuple):
    """One row of ``symbols_mat``."""

    symbol_id: int
    target_id: int
    name_id: int
    file: int
    name: str
    qualified_name: str
    module: str
    kind: str
    precise: bool
    start_line: int
    start_column: int
    end_line: int
    end_column: int
    body_start_line: int
    body_end_line: int
    signature: str
    documentation: str
    chunk_id: int

    @property
    def span(self) -> tuple[int, int, int, int]:
        """Place of the name: start line and column, end line and column."""
        return self.start_line, self.start_column, self.end_line, self.end_column

    @property
    def full_name(self) -> str:
        """Qualified name behind the dotted path of the file."""
        return f"{self.module}.{self.qualified_name}" if self.module else self.qualified_name


class NamedDefinition(NamedTuple):
    """A definition by what the mapped arrays say of it."""

    symbol_id: int
    file: int
    name: str
    qualified_name: str
    kind: str


class DefinitionMatches(NamedTuple):
    """Definitions, best first."""

    rows: list[SymbolRow]
    """At most `MAX_FOUND`."""
    total: int


class Places(NamedTuple):
    """Rows of ``occurrences_mat``, (m,) each, with the ids of their chunks."""

    target_id: np.ndarray
    file: np.ndarray
    precise: np.ndarray
    roles: np.ndarray
    start_line: np.ndarray
    start_column: np.ndarray
    end_line: np.ndarray
    end_column: np.ndarray
    enclosing: np.ndarray
    """See `SymbolTables.enclosing_name`."""
    chunk_id: np.ndarray

    @property
    def defining(self) -> np.ndarray:
        """Mask of the places that are definitions: (m,) bool."""
        return self.roles & DEFINITION != 0

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Return the rows as plain Python values."""
        return zip(*(column.tolist() for column in self), strict=True)

    def where(self, rows: np.ndarray) -> Places:
        """Select rows.

        Args:
            rows: (m,) bool, or positions.

        Returns:
            The selected rows.
        """
        return Places(*(column[rows] for column in self))


class Named(NamedTuple):
    """One row of ``places_mat``."""

    start_column: int
    end_line: int
    end_column: int
    precise: bool
    roles: int
    target_id: int
