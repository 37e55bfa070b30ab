"""Byte-level measurements of one file: ink (non-whitespace bytes), lines and safe places to cut."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate

# No NumPy: loading it would be most of the work of a worker that is started for one file.
_WHITESPACE = b" \t\n\r\f\v"
_INK = bytes(code not in _WHITESPACE for code in range(256))
_BLANKED = bytes(code if code in _WHITESPACE else ord(" ") for code in range(256))


class SourceText:
    """A file's bytes with measurements that chunking asks for repeatedly, computed once.

    Sizes are *ink*: bytes that are not whitespace, so that indentation style does not change where a file is cut.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.ink_before = array("I", accumulate(data.translate(_INK), initial=0))
        """Non-whitespace bytes before each byte, and before the end."""
        lines = data.split(b"\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in lines[:-1])]

    def ink(self, start: int, end: int) -> int:
        """Return the number of non-whitespace bytes in ``[start, end)``."""
        return self.ink_before[end] - self.ink_before[start]

    def reach(self, start: int, budget: int) -> int:
        """Return the furthest end for which ``[start, end)`` holds at most ``budget`` non-whitespace bytes."""
        return bisect_right(self.ink_before, self.ink_before[start] + budget, lo=start) - 1

    def first_end(self, start: int, size: int) -> int:
        """Return the nearest end for which ``[start, end)`` holds at least ``size`` non-whitespace bytes."""
        return bisect_left(self.ink_before, self.ink_before[start] + size, lo=start)

    def lines_at(self, positions: list[int]) -> list[int]:
        """Return the 0-based line of each byte position, lines being separated by ``\\n``."""
        return [bisect_right(self._starts, position) - 1 for position in positions]

    def places_at(self, positions: list[int]) -> tuple[list[int], list[int]]:
        """Return the 0-based line of each byte position, and the number of bytes before it on that line."""
        lines = self.lines_at(positions)
        return lines, [position - self._starts[line] for position, line in zip(positions, lines, strict=True)]

    def paragraph_starts(self) -> list[int]:
        """Return offsets of the lines with text that follow a blank line."""
        ends = [*self._starts[1:], len(self.data)]
        inked = [self.ink(start, end) > 0 for start, end in zip(self._starts, ends, strict=True)]
        return [
            start for start, own, before in zip(self._starts[1:], inked[1:], inked, strict=False) if own and not before
        ]

    def same_line(self, end: int, start: int) -> bool:
        """Return whether text that starts at ``start`` shares a line with text that ended at ``end``."""
        # Some nodes include their line break, hence the byte before ``end``.
        return self.data.find(b"\n", max(end - 1, 0), start) < 0

    def boundary(self, end: int, start: int) -> int:
        """Return the position to cut at, between text that ended at ``end`` and text starting at ``start``.

        Blank lines go with the former, indentation with the latter.
        """
        if self.same_line(end, start):
            return start
        return max(self.data.rfind(b"\n", max(end - 1, 0), start) + 1, end)

    def pieces(self, start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of at most ``limit`` non-whitespace bytes that partition ``[start, end)``.

        Cuts are at line ends, else between words, else between UTF-8 characters.
        """
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
        """Return the last position in ``(start, cut]`` outside a UTF-8 character, or ``cut`` in other encodings."""
        for position in range(cut, max(start, cut - 4), -1):
            if self.data[position] & 0xC0 != 0x80:
                return position
        return cut


def blank(data: bytearray, start: int, end: int) -> None:
    """Replace the non-whitespace bytes of ``[start, end)`` by spaces."""
    data[start:end] = data[start:end].translate(_BLANKED)


def inked_lines(data: bytes | bytearray) -> int:
    """Return the number of lines that are not blank."""
    return sum(map(bool, map(bytes.strip, bytes(data).split(b"\n"))))
