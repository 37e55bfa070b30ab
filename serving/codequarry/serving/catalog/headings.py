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
    """Return the definitions around some lines of a chunk, outermost first: ``Worker > method start``.

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
    parts = name.split(".")[-_MOST:]
    kind = row.kind if name == row.qualified_name else ""
    if kind in _NO_KINDS:
        kind = _kinds(index, row).get(name, "")
    parts[-1] = f"{kind} {parts[-1]}".strip()
    return " > ".join(present.one_line(one, _MAX_NAME_CHARS) for one in parts)


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


def _kinds(index: RowIndex, row: ChunkRow) -> dict[str, str]:
    """Return the kinds of the definitions that start in a chunk, by qualified name."""
    started = index.definitions_of_row(int(index.rows_of([row.chunk_id])[0]))
    names, kinds = (index.column(name, started).tolist() for name in ("qualified_name", "kind"))
    return {index.texts[name]: index.texts[kind] for name, kind in zip(names, kinds, strict=True)}
