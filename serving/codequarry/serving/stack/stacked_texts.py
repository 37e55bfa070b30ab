"""Texts of a delta version and its base."""

from __future__ import annotations

import numpy as np

from codequarry.serving.catalog.texts import MappedTexts


class StackedTexts(MappedTexts):
    """Texts of the base by its shards, behind them those of the delta.

    The base stays open by itself, and all versions over it share the pages that are in memory.
    """

    def __init__(self, base: MappedTexts, own: MappedTexts) -> None:
        """Put the texts of a delta over those of its base.

        Args:
            base: Texts of the base; they stay the base's.
            own: Texts of the delta, which are closed with these.
        """
        self._base, self._own = base, own

    @property
    def shards(self) -> int:
        """Number above that of every shard."""
        return self._base.shards + self._own.shards

    def whole(self, shard: int) -> bytes:
        """Return all texts of a shard, see `MappedTexts`."""
        texts, number = self._place(shard)
        return texts.whole(number)

    def cuts_words(self, chunks: np.ndarray) -> bool:
        """Tell whether a chunk begins inside a word, see `MappedTexts`."""
        texts, number = self._place(int(chunks["shard"][0]))
        moved = chunks.copy()
        moved["shard"] = number
        return texts.cuts_words(moved)

    def read(self, shard: int, start: int, end: int) -> bytes:
        """Return bytes of the texts of a shard, see `MappedTexts`."""
        texts, number = self._place(shard)
        return texts.read(number, start, end)

    def close(self) -> None:
        """Give the files and the pages of the delta back."""
        self._own.close()

    def _place(self, shard: int) -> tuple[MappedTexts, int]:
        """Return the texts that hold a shard, and its number there."""
        first = self._base.shards
        return (self._base, shard) if shard < first else (self._own, shard - first)
