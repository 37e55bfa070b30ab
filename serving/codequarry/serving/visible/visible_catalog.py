"""Catalog of what a caller may see."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codequarry.serving.catalog.catalog import Catalog, DefinitionSpan, FileFacts
from codequarry.serving.catalog.filters import members
from codequarry.serving.catalog.texts import Find
from codequarry.serving.visible.visible_directory import VisibleDirectory
from codequarry.serving.visible.visible_rows import VisibleRows


class VisibleCatalog(Catalog):
    """Catalog of a version, of which other repositories are left out. Safe to share between threads."""

    def __init__(self, whole: Catalog, directory: VisibleDirectory) -> None:
        """Restrict a catalog, which stays the version's.

        Args:
            whole: Catalog of the version.
            directory: Directory of the visible files.
        """
        rows = VisibleRows(whole.index, directory.rows_of(np.flatnonzero(directory.seen)))
        super().__init__(whole._connection, whole.stored_texts, rows)
        self._parsed = whole._parsed
        self._whole, self._directory = whole, directory

    def directory(self) -> VisibleDirectory:
        """Return the directory of the visible files."""
        return self._directory

    def definitions_in(self, chunk_ids: Sequence[int]) -> dict[int, list[DefinitionSpan]]:
        """Return definitions by chunk, see `Catalog`."""
        ids = np.asarray(chunk_ids, np.int64)
        return self._whole.definitions_in(self._only_visible(ids).tolist())

    def skip_reason(self, file: int) -> str:
        """Return why a file was left out, see `Catalog`."""
        return self._whole.skip_reason(file) if self._directory.seen[file] else ""

    def facts_of_files(self, uris: Sequence[str] | None) -> dict[int, FileFacts]:
        """Return facts of files, see `Catalog`."""
        found = self._whole.facts_of_files(uris)
        return {file: facts for file, facts in found.items() if self._directory.seen[file]}

    def holding(self, find: Find, rows: np.ndarray, *, folded: bool) -> np.ndarray:
        """Find chunks by their texts, see `Catalog`."""
        return self._only_visible(self._whole.holding(find, rows, folded=folded))

    def defining(self, names: Sequence[str]) -> np.ndarray:
        """Return ids of chunks by symbol, see `Catalog`."""
        return self._only_visible(self._whole.defining(names))

    def close(self) -> None:
        """Close nothing: connection and files are the version's."""

    def _only_visible(self, chunk_ids: np.ndarray) -> np.ndarray:
        return chunk_ids[members(chunk_ids, self.index.ids)]
