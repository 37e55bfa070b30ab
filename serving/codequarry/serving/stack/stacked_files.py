"""Files of a delta version and its base for the ranking and for explanations."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from codequarry.serving.catalog.explanation_facts import ChunkFacts
from codequarry.serving.files.file_index import IndexedFiles
from codequarry.serving.stack.overlay import StackArrays


class StackedFileIndex:
    """Index of the files of both versions, without the hidden ones; see `IndexedFiles`."""

    def __init__(self, base: IndexedFiles, own: IndexedFiles, stack: StackArrays) -> None:
        """Join the indexes of two versions.

        Args:
            base: Index of the base.
            own: Index of the delta.
            stack: The stack.
        """
        self._base, self._own = base, own
        self._live = np.flatnonzero(~stack.hidden_files[base.facts["row"]])
        later = own.facts.copy()
        later["row"] += stack.base.files
        self._facts = np.concatenate([base.facts[self._live], later])

    @property
    def facts(self) -> np.ndarray:
        """(f,) of the fields of ``facts.npy``, by ascending row."""
        return self._facts

    @property
    def dim(self) -> int:
        """Length of a summary's vector."""
        return self._base.dim or self._own.dim

    def name_cover(self, stems: Collection[str]) -> np.ndarray:
        """Return the cover of each file's name, see `IndexedFiles`."""
        return np.concatenate([self._base.name_cover(stems)[self._live], self._own.name_cover(stems)])

    def similarity(self, vector: np.ndarray) -> np.ndarray:
        """Return the similarity of each file's summary, see `IndexedFiles`."""
        return np.concatenate([self._base.similarity(vector)[self._live], self._own.similarity(vector)])


@dataclass(frozen=True)
class StackedFacts:
    """Facts of both versions for explanations; see `ChunkFacts`."""

    base: ChunkFacts
    own: ChunkFacts
    stack: StackArrays

    def leaves_of(self, row: int) -> dict[str, int]:
        """Return the most frequent syntax leaves of a chunk, see `ChunkFacts`."""
        first = self.stack.base.chunks
        return self.base.leaves_of(row) if row < first else self.own.leaves_of(row - first)

    def said_of(self, file: int) -> str:
        """Return the text at the top of a file, see `ChunkFacts`."""
        first = self.stack.base.files
        return self.base.said_of(file) if file < first else self.own.said_of(file - first)
