"""Headings: the definitions around some lines of a chunk, in words."""

from __future__ import annotations

from codequarry.serving.catalog import present
from codequarry.serving.catalog.catalog import ChunkRow
from codequarry.serving.catalog.chunk_arrays import ChunkRows

_MAX_NAME_CHARS = 60
_MOST = 2
"""Definitions of a heading; of a deeper nest the innermost ones."""
_NO_KINDS = ("block", "text", "")


def depends_on_lines(row: ChunkRow) -> bool:
    """Return whether the heading of a chunk is not the same for all of its lines."""
    return len(row.symbols) > 1 or bool(row.symbols and not row.qualified_name)


def enclosing_heading(index: ChunkRows, row: ChunkRow, last: int) -> str:
    """Return the definitions around some lines of a chunk, outermost first: ``Worker > method start``.

    Args:
        index: Chunks and definitions by number.
        row: The chunk.
        last: Last of the lines, from the chunk's first; it matters where the heading `depends_on_lines`.

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
    best, line = row.qualified_name, 0
    if depends_on_lines(row):
        shown = "\n".join(row.text.split("\n")[: last + 1])
        for symbol in row.symbols:
            at = _find_word(shown, symbol.rpartition(".")[2], line)
            if at >= 0:
                best, line = symbol, shown.rfind("\n", 0, at) + 1
    return best or next(iter(row.symbols), "")


def _find_word(text: str, word: str, start: int) -> int:
    """Return where a whole word begins in a text, from ``start`` on; -1 where it does not occur."""
    at = text.find(word, start)
    while at >= 0 and (_is_of_word(text[at - 1 : at]) or _is_of_word(text[at + len(word) : at + len(word) + 1])):
        at = text.find(word, at + 1)
    return at


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _kinds(index: ChunkRows, row: ChunkRow) -> dict[str, str]:
    """Return the kinds of the definitions that start in a chunk, by qualified name."""
    started = index.definitions_of_row(int(index.rows_of([row.chunk_id])[0]))
    names, kinds = (index.column(name, started).tolist() for name in ("qualified_name", "kind"))
    return {index.texts[name]: index.texts[kind] for name, kind in zip(names, kinds, strict=True)}
