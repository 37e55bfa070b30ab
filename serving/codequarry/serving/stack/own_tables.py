"""Rows that a delta version adds to the catalog's tables, in memory and in numbers of the stack.

The tables of a delta are small. DuckDB would hold a copy of everything for each version over a base, and plan a union
of two tables for each look-up. So they are read once, as arrays, and what is asked of them is found in these.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Self

import numpy as np

from codequarry.schemas.catalog.stack_views import StackNames, own_tables
from codequarry.serving.catalog.catalog import Catalog, FileFacts
from codequarry.serving.stack.overlay import StackArrays
from codequarry.serving.stack.stack_tables import put_stack_arrays

PLACE_COLUMNS = (
    "target_id", "file", "precise", "roles", "start_line", "start_column", "lines", "width", "enclosing", "chunk",
)  # fmt: skip
DEFINITION_COLUMNS = (
    "target_id", "name_id", "file", "precise", "start_line", "start_column", "end_line", "end_column",
    "body_start_line", "body_end_line", "signature", "documentation",
)  # fmt: skip
_OF_FILES = "repo || '/' || path, size_bytes, sha256, encoding, skip_reason"
_numbers = count()


@dataclass(frozen=True)
class OwnTables:
    """Files, definitions and places of a delta version."""

    files: Sequence[tuple[FileFacts, str]]
    """Facts of each file, and why it was left out of the index, or ""."""
    definitions: dict[str, np.ndarray]
    """(s,) each of `DEFINITION_COLUMNS`, by definition of the delta."""
    places: dict[str, np.ndarray]
    """(p,) each of `PLACE_COLUMNS`, by target, file and place."""
    by_file: np.ndarray
    """(p,) int32: the places by file and place."""

    @classmethod
    def read(cls, own: Catalog, stack: StackArrays) -> Self:
        """Read the tables of a delta version.

        Args:
            own: Catalog of the delta version by itself. It gets a database in memory for a moment.
            stack: The stack.

        Returns:
            The tables.

        Raises:
            IntegrityError: Tables are missing.
        """
        # DuckDB opens a file once for a process: others that read the version at this moment see the database as well.
        database = f"stack_{next(_numbers)}"
        names = stack.numbers("", "main", f"{database}.main", 0)
        with own.reading() as cursor:
            cursor.execute(f"ATTACH ':memory:' AS {database} (READ_WRITE)")
            try:
                put_stack_arrays(cursor, stack, names.schema)
                return cls._read(cursor, names)
            finally:
                cursor.execute(f"DETACH {database}")

    @classmethod
    def _read(cls, cursor: Any, names: StackNames) -> Self:
        sources = own_tables(names)

        def columns(table: str, wanted: Collection[str], order: str) -> dict[str, np.ndarray]:
            found = cursor.execute(f"SELECT {', '.join(wanted)} FROM ({sources[table]}) ORDER BY {order}")
            return {name: np.asarray(column) for name, column in found.fetchnumpy().items()}

        rows = cursor.execute(f"SELECT {_OF_FILES} FROM main.files_mat ORDER BY file").fetchall()
        places = columns("occurrences_mat", PLACE_COLUMNS, "target_id, file, start_line, start_column")
        order = (places[name] for name in ("start_column", "start_line", "file"))
        return cls(
            [(FileFacts._make(facts), str(reason or "")) for *facts, reason in rows],
            columns("symbols_mat", DEFINITION_COLUMNS, "symbol_id"),
            places,
            np.lexsort(tuple(order)).astype(np.int32),
        )

    def definitions_with(self, column: str, values: Sequence[int]) -> np.ndarray:
        """Return the definitions of the delta, by its own numbers, that have one of these values: (m,) int64."""
        return np.flatnonzero(np.isin(self.definitions[column], values))

    def places_naming(self, targets: Sequence[int]) -> list[np.ndarray]:
        """Return the columns of the places that name one of these targets."""
        wanted = np.unique(np.asarray(targets, np.int64))
        ids = self.places["target_id"]
        low, high = np.searchsorted(ids, wanted), np.searchsorted(ids, wanted, "right")
        rows = [np.arange(start, end) for start, end in zip(low.tolist(), high.tolist(), strict=True)]
        at = np.concatenate([np.empty(0, np.int64), *rows])
        return [self.places[name][at] for name in PLACE_COLUMNS]

    def places_in(self, file: int, first: int, last: int) -> np.ndarray:
        """Return the rows of the places that start on some lines of a file.

        Args:
            file: The file, by its number in the stack.
            first: First line.
            last: Last line, inclusive.

        Returns:
            (m,) int64.
        """
        files = self.places["file"]
        low, high = (int(np.searchsorted(files, file, side, sorter=self.by_file)) for side in ("left", "right"))
        rows = self.by_file[low:high]
        lines = self.places["start_line"][rows]
        return rows[(lines >= first) & (lines <= last)]
