"""File evidence among the files that a caller may see."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from codequarry.serving.files.file_index import IndexedFiles


class VisibleFileIndex:
    """Index of all files, in which a query is nowhere near a hidden one."""

    def __init__(self, whole: IndexedFiles, seen: np.ndarray) -> None:
        """Restrict an index.

        Args:
            whole: Index of the version's files.
            seen: (files,) bool: the visible ones, by row of the directory.
        """
        self._whole = whole
        self._seen = seen[whole.facts["row"].astype(np.int64)]

    @property
    def facts(self) -> np.ndarray:
        """Facts of all files, which stay numbered as they are."""
        return self._whole.facts

    @property
    def dim(self) -> int:
        """Length of a summary's vector."""
        return self._whole.dim

    def name_cover(self, stems: Collection[str]) -> np.ndarray:
        """Return the cover of each file's name, see `IndexedFiles`; 0 for hidden files."""
        return np.where(self._seen, self._whole.name_cover(stems), np.float32(0))

    def similarity(self, vector: np.ndarray) -> np.ndarray:
        """Return the similarity of each file's summary, see `IndexedFiles`.

        That of a hidden file is the lowest of the others, so that none of them loses or gains a place by it.
        """
        found = self._whole.similarity(vector)
        lowest = found[self._seen].min() if self._seen.any() else np.float32(0)
        return np.where(self._seen, found, lowest)
