"""Conversion of an indexer's positions, lines and code units, to byte offsets of the file."""

from __future__ import annotations

import re

import numpy as np

_LINE_ENDS = re.compile(rb"\r\n|\r|\n")
# ECMAScript has two more line terminators, U+2028 and U+2029.
_SCRIPT_LINE_ENDS = re.compile(rb"\r\n|\r|\n|\xe2\x80\xa8|\xe2\x80\xa9")
_BOM = b"\xef\xbb\xbf"


def as_utf8(content: bytes) -> bytes:
    """Return the bytes with '?' for each that is not part of valid UTF-8.

    Every program decodes them alike, and offsets stay the same.
    """
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        text = content.decode("utf-8", "surrogateescape")
        return re.sub("[\udc80-\udcff]", "?", text).encode("utf-8")
    return content


class Positions:
    """Byte offsets of an indexer's lines and columns in one file."""

    def __init__(self, content: bytes, encoding: str, *, ecmascript: bool = False) -> None:
        """Compute the starts of lines and the code units of a file.

        Args:
            content: Bytes of the file.
            encoding: Unit of a column: utf-8, utf-16 or utf-32.
            ecmascript: Count lines as ECMAScript does, without the byte order mark, which its tools strip.
        """
        content = as_utf8(content)
        ends = (_SCRIPT_LINE_ENDS if ecmascript else _LINE_ENDS).finditer(content)
        first = len(_BOM) if ecmascript and content.startswith(_BOM) else 0
        self._starts = np.array([first, *(end.end() for end in ends)], dtype=np.int64)
        self._limits = np.append(self._starts[1:], len(content))
        self._newlines = np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == 0x0A)
        self._line_bytes = np.concatenate(([0], self._newlines + 1))
        self._units: np.ndarray | None = None
        if encoding != "utf-8" and not content.isascii():
            codes = np.frombuffer(content, dtype=np.uint8)
            units = ((codes & 0xC0) != 0x80).astype(np.int64)
            if encoding == "utf-16":
                units += codes >= 0xF0  # four bytes: a surrogate pair
            self._units = np.concatenate(([0], np.cumsum(units)))

    def offsets(self, lines: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the byte offset of each position, -1 for one outside the file.

        Args:
            lines: (n,) int64, 0-based.
            columns: (n,) int64, 0-based.

        Returns:
            (n,) int64 offsets.
        """
        inside = (lines >= 0) & (lines < len(self._starts)) & (columns >= 0)
        line = np.where(inside, lines, 0)
        starts = self._starts[line]
        if self._units is None:
            found = starts + np.where(inside, columns, 0)
        else:
            wanted = self._units[starts] + np.where(inside, columns, 0)
            # Bytes inside a character have as many units before them as the start of the next one, the last of equals.
            found = np.searchsorted(self._units, wanted, side="right") - 1
            inside &= wanted <= self._units[-1]
        return np.where(inside & (found <= self._limits[line]), found, -1)

    def places(self, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (line, column in bytes) of byte offsets, lines being separated by ``\\n`` as in every table."""
        lines = np.searchsorted(self._newlines, offsets, side="left")
        return lines, offsets - self._line_bytes[lines]
