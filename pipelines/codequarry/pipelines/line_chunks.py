"""Chunks of whole lines, for languages without a grammar and files that will not parse in time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from codequarry.pipelines.source_text import SourceText


def line_ranges(text: SourceText, *, max_chars: int, merge_chars: int) -> Iterator[tuple[int, int]]:
    """Ranges that partition a file at line starts, each of at most ``max_chars`` ink.

    A range ends at the last blank line before ``merge_chars``; if there is none, at the first one before ``max_chars``;
    otherwise at a line end, or inside a line that alone is too long.
    """
    size = len(text.data)
    breaks = text.paragraph_starts()
    start = 0
    while text.ink(start, size) > merge_chars:
        near = text.reach(start, merge_chars)
        far = min(text.reach(start, max_chars), size)
        cut = _last_break(breaks, text, start, near, merge_chars // 4) or _first_break(breaks, near, far)
        if cut is None:
            if text.ink(start, size) <= min(merge_chars + merge_chars // 4, max_chars):
                break
            cut = next(text.pieces(start, size, merge_chars))[1]
        yield start, cut
        start = cut
    if start < size:
        yield start, size


def _last_break(breaks: list[int], text: SourceText, start: int, near: int, least: int) -> int | None:
    at = bisect_right(breaks, near) - 1
    if at >= 0 and breaks[at] > start and text.ink(start, breaks[at]) >= least:
        return breaks[at]
    return None


def _first_break(breaks: list[int], near: int, far: int) -> int | None:
    at = bisect_right(breaks, near)
    return breaks[at] if at < len(breaks) and breaks[at] <= far else None
