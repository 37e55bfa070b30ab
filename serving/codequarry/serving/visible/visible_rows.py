"""Chunks and definitions that a caller may see, by the numbers of the whole version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from codequarry.serving.catalog.chunk_arrays import ChunkRows, Strings


class VisibleRows(ChunkRows):
    """Rows of a version, of which those of hidden files do not count."""

    def __init__(self, whole: ChunkRows, rows: np.ndarray) -> None:
        """Restrict rows.

        Args:
            whole: Chunks and definitions of the version.
            rows: Rows of the visible chunks, int64.
        """
        self._whole = whole
        self._seen = np.zeros(len(whole.chunks), np.bool_)
        self._seen[rows] = True
        self.chunks = whole.chunks
        self.ids_rows = whole.ids_rows[self._seen[whole.ids_rows]]

    @property
    def texts(self) -> Strings:
        """Strings that the numbers name."""
        return self._whole.texts

    def symbols_of(self, row: int) -> list[str]:
        """Return names of definitions, see `ChunkRows`."""
        return self._whole.symbols_of(row) if self._seen[row] else []

    def rows_of_file(self, repo: str, path: str) -> range:
        """Return the rows of a file's chunks, see `ChunkRows`."""
        rows = self._whole.rows_of_file(repo, path)
        return rows if rows and self._seen[rows.start] else range(0)

    def column(self, name: str, definitions: Any) -> Any:
        """Return a field of definitions, see `ChunkRows`."""
        return self._whole.column(name, definitions)

    def rows_of_kinds(self, kinds: Iterable[str]) -> np.ndarray:
        """Return rows of chunks, see `ChunkRows`."""
        found = self._whole.rows_of_kinds(kinds)
        return found[self._seen[found]]

    def definitions_named(self, keys: Iterable[str], *, members: bool = False) -> np.ndarray:
        """Return definitions by name, see `ChunkRows`."""
        found = self._whole.definitions_named(keys, members=members)
        return found[self._seen[self._whole.column("chunk", found)]]

    def near_names(self, key: str) -> list[str]:
        """Return names one typo away, see `ChunkRows`."""
        return [name for name in self._whole.near_names(key) if len(self.definitions_named([name]))]

    def names_holding(self, part: str) -> list[str]:
        """Return names that hold some letters, see `ChunkRows`."""
        return [name for name in self._whole.names_holding(part) if len(self.definitions_named([name]))]

    def definitions_of_row(self, row: int) -> np.ndarray:
        """Return definitions, see `ChunkRows`."""
        return self._whole.definitions_of_row(row) if self._seen[row] else np.empty(0, np.int32)
