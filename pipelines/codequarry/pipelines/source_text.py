"""Byte-level measurements of one file: ink (non-whitespace bytes), lines and safe places to cut."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

_INK = np.ones(256, dtype=bool)
_INK[list(b" \t\n\r\f\v")] = False


class SourceText:
    """A file's bytes with what chunking asks of them over and over, computed once.

    Sizes are *ink*: bytes that are not whitespace, so that indentation style does not change where a file is cut.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        codes = np.frombuffer(data, dtype=np.uint8)
        ink = np.zeros(len(data) + 1, dtype=np.int64)
        np.cumsum(_INK[codes], out=ink[1:])
        self._ink = ink
        # Plain Python integers come out of a memoryview several times faster than out of an array.
        self.ink_before = ink.data
        self._newlines = np.flatnonzero(codes == 0x0A)

    def ink(self, start: int, end: int) -> int:
        """Non-whitespace bytes in ``[start, end)``."""
        return self.ink_before[end] - self.ink_before[start]

    def inked(self) -> np.ndarray:
        """(bytes,) bool: what is not whitespace; the caller's own array."""
        return self._ink[1:] != self._ink[:-1]

    def reach(self, start: int, budget: int) -> int:
        """The furthest end for which ``[start, end)`` holds at most ``budget`` ink."""
        return bisect_right(self.ink_before, self.ink_before[start] + budget, lo=start) - 1

    def lines_at(self, positions: list[int]) -> list[int]:
        """0-based line of each byte position, lines being separated by ``\\n``."""
        return np.searchsorted(self._newlines, positions, side="left").tolist()

    def places_at(self, positions: list[int]) -> tuple[list[int], list[int]]:
        """0-based line of each byte position, and the bytes before it on that line."""
        lines = np.searchsorted(self._newlines, positions, side="left")
        starts = np.concatenate(([0], self._newlines + 1))
        return lines.tolist(), (np.array(positions, dtype=np.int64) - starts[lines]).tolist()

    def line_starts(self) -> np.ndarray:
        """(lines,) int64 byte offset of every line that holds at least one byte."""
        starts = np.concatenate(([0], self._newlines + 1))
        return starts[starts < len(self.data)]

    def paragraph_starts(self) -> list[int]:
        """Offsets of the lines with ink that follow a line without."""
        starts = self.line_starts()
        inked = np.diff(self._ink[np.append(starts, len(self.data))]) > 0
        return starts[1:][inked[1:] & ~inked[:-1]].tolist()

    def same_line(self, end: int, start: int) -> bool:
        """Whether what starts at ``start`` shares a line with what ended at ``end``."""
        # Some nodes include their line break, hence the byte before ``end``.
        return self.data.find(b"\n", max(end - 1, 0), start) < 0

    def boundary(self, end: int, start: int) -> int:
        """Where to cut between text that ended at ``end`` and text starting at ``start``.

        Blank lines go with the former, indentation with the latter.
        """
        if self.same_line(end, start):
            return start
        return max(self.data.rfind(b"\n", max(end - 1, 0), start) + 1, end)

    def pieces(self, start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
        """Cut ``[start, end)`` to ranges of at most ``limit`` ink: at line ends, else words, else UTF-8 characters."""
        while self.ink(start, end) > limit:
            furthest = min(self.reach(start, limit), end)
            cut = max(self.data.rfind(b"\n", start, furthest) + 1, start)
            if not self.ink(start, cut):
                middle = self.reach(start, limit // 2)
                cut = max(self.data.rfind(mark, middle, furthest) for mark in (b" ", b",", b";")) + 1
            if not self.ink(start, max(cut, start)):
                cut = self._character_start(start, furthest)
            yield start, cut
            start = cut
        if start < end:
            yield start, end

    def _character_start(self, start: int, cut: int) -> int:
        """The last position in ``(start, cut]`` outside a UTF-8 character, or ``cut`` where the bytes are not UTF-8."""
        for position in range(cut, max(start, cut - 4), -1):
            if self.data[position] & 0xC0 != 0x80:
                return position
        return cut
