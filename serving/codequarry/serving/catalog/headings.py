"""Headings: the definitions around some lines of a chunk, in words."""

from __future__ import annotations

import re

from codequarry.serving.catalog import present
from codequarry.serving.catalog.catalog import ChunkRow
from codequarry.serving.catalog.chunk_arrays import RowIndex

_MAX_NAME_CHARS = 60
_MOST = 2
"""Definitions of a heading; of a deeper nest the innermost ones."""
_NO_KINDS = ("block", "text", "")


def enclosing_heading(index: RowIndex, row: ChunkRow, last: int) -> str:
    """Return the definitions around some lines of a chunk, outermost first: ``class Worker > method start``.

    Args:
        index: Chunks and definitions by number.
        row: The chunk.
        last: Last of the lines, from the chunk's first.

    Returns:
        The heading; "" where no definition is near.
    """
    name = _nearest(row, last)
    if not name:
        return ""
    parts = name.split(".")
    firsts = range(max(0, len(parts) - _MOST), len(parts))
    names = [".".join(parts[: place + 1]) for place in firsts]
    kinds = [row.kind if one == row.qualified_name else "" for one in names]
    kinds = [
        kind if kind not in _NO_KINDS else _kind_of(index, row, one) for kind, one in zip(kinds, names, strict=True)
    ]
    shown = (f"{kind} {parts[place]}".strip() for kind, place in zip(kinds, firsts, strict=True))
    return " > ".join(present.one_line(one, _MAX_NAME_CHARS) for one in shown)


def _nearest(row: ChunkRow, last: int) -> str:
    """Return the definition of the chunk that starts last before the end of some lines, or the one around it."""
    best, found = row.qualified_name, -1
    if len(row.symbols) > 1 or not best:
        lines = row.text.split("\n")[: last + 1]
        for symbol in row.symbols:
            word = re.compile(rf"(?<!\w){re.escape(symbol.rsplit('.', 1)[-1])}(?!\w)")
            at = next((number for number in range(max(found, 0), len(lines)) if word.search(lines[number])), -1)
            if at > found or (at == found >= 0):
                best, found = symbol, at
        if not best and row.symbols:
            best = row.symbols[0]
    return best


def _kind_of(index: RowIndex, row: ChunkRow, name: str) -> str:
    """Return the kind of the definition of a qualified name in the module of a chunk; "" when it has none."""
    found = index.definitions_named([name.rsplit(".", 1)[-1].lower()])
    qualified, module = index.texts.find(name), index.texts.find(row.module)
    same = (index.column("qualified_name", found) == qualified) & (index.column("module", found) == module)
    kinds = index.column("kind", found[same])
    return index.texts[int(kinds[0])] if len(kinds) else ""
