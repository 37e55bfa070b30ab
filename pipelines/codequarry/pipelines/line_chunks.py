"""Chunks of whole lines, for languages without a grammar and files that will not parse in time."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from codequarry.pipelines.source_text import SourceText

_HEADING_OR_FENCE = re.compile(rb"^(?: {0,3}(#{1,6})[ \t]| {0,3}(`{3,}|~{3,}))", re.MULTILINE)


def line_ranges(text: SourceText, language: str, *, max_chars: int, merge_chars: int) -> Iterator[tuple[int, int]]:
    """Ranges that partition a file at line starts, each of at most ``max_chars`` ink.

    A range ends at the last heading (Markdown) or the last blank line before ``merge_chars``; if there is none, at the
    first one before ``max_chars``; otherwise at a line end, or inside a line that alone is too long.
    """
    size = len(text.data)
    levels = [text.paragraph_starts()]
    if language == "markdown":
        levels.insert(0, heading_starts(text.data))
    start = 0
    while text.ink(start, size) > merge_chars:
        near = text.reach(start, merge_chars)
        far = min(text.reach(start, max_chars), size)
        cut = _last_break(levels, text, start, near, merge_chars // 4) or _first_break(levels, near, far)
        if cut is None:
            if text.ink(start, size) <= min(merge_chars + merge_chars // 4, max_chars):
                break
            cut = next(text.pieces(start, size, merge_chars))[1]
        yield start, cut
        start = cut
    if start < size:
        yield start, size


def heading_starts(data: bytes) -> list[int]:
    """Offsets of the ATX headings of a Markdown file, those inside code fences left out.

    >>> heading_starts(b"# a\\n```\\n# not this\\n```\\n## b\\n")
    [0, 23]
    """
    starts: list[int] = []
    fence = b""
    for match in _HEADING_OR_FENCE.finditer(data):
        heading, ticks = match.groups()
        if ticks and (not fence or ticks.startswith(fence)):
            fence = b"" if fence else ticks
        elif heading and not fence:
            starts.append(match.start())
    return starts


def _last_break(levels: list[list[int]], text: SourceText, start: int, near: int, least: int) -> int | None:
    for breaks in levels:
        at = bisect_right(breaks, near) - 1
        if at >= 0 and breaks[at] > start and text.ink(start, breaks[at]) >= least:
            return breaks[at]
    return None


def _first_break(levels: list[list[int]], near: int, far: int) -> int | None:
    for breaks in levels:
        at = bisect_right(breaks, near)
        if at < len(breaks) and breaks[at] <= far:
            return breaks[at]
    return None
