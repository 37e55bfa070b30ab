"""Lines of files, assembled from their chunks, and the definitions that stand in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from codequarry.schemas.errors import NotFoundError
from codequarry.serving.catalog.definition_rows import SymbolRow
from codequarry.serving.version.open import Bundle


class FileLines(NamedTuple):
    """Whole lines of a file."""

    first: int
    """0-based."""
    last: int
    """0-based, inclusive."""
    start_byte: int
    end_byte: int
    """Exclusive."""
    text: str
    total: int
    """Lines of the whole file."""
    module: str
    """Dotted name of the file; may be empty."""


class NestedDefinition(NamedTuple):
    """A definition, and how many others are around it."""

    row: SymbolRow
    depth: int
    """1 for definitions that nothing encloses."""

    @property
    def first(self) -> int:
        """First line of the whole definition, 0-based."""
        return self.row.body_start_line

    @property
    def last(self) -> int:
        """Last line of the whole definition, 0-based, inclusive."""
        return max(self.row.body_start_line, self.row.body_end_line)


def read_lines(bundle: Bundle, file: int, first: int = 0, last: int | None = None) -> FileLines:
    """Read lines of a file, or all of it; only the chunks that hold them are read.

    Args:
        bundle: The version.
        file: Row of the file in the directory.
        first: First line, 0-based.
        last: Last line, 0-based, inclusive; None for the last of the file. Lines past it are left out.

    Returns:
        The lines.

    Raises:
        NotFoundError: The file is not indexed, or has no such line.
    """
    require_indexed(bundle, file)
    rows = _rows(bundle, file)
    chunks = bundle.catalog.index.chunks[rows.start : rows.stop]
    lowest, total = int(chunks["start_line"][0]), int(chunks["end_line"].max()) + 1
    last = total - 1 if last is None else min(last, total - 1)
    if first >= total:
        raise NotFoundError(f"the file has {total} lines", suggestion=f"write path:first-last within 1-{total}")
    touched = np.flatnonzero((chunks["end_line"] >= first) & (chunks["start_line"] <= last))
    if not len(touched):
        raise NotFoundError("no line of this range is indexed", suggestion=f"the file's text begins at {lowest + 1}")
    own = chunks[touched[0] : touched[-1] + 1]
    texts = bundle.catalog.texts(own["chunk_id"].tolist())
    pieces = [texts[one][1] for one in own["chunk_id"].tolist()]
    whole, base = "".join(pieces), int(own["start_line"][0])
    first = max(first, base)
    start = _line_start(whole, first - base)
    end = _line_start(whole, last - base + 1)
    start_byte, end_byte = (_byte_at(pieces, own["start_byte"].tolist(), at) for at in (start, end))
    module = bundle.catalog.index.texts[int(own["module"][0])]
    return FileLines(first, last, start_byte, end_byte, whole[start:end], total, module)


def all_lines(bundle: Bundle, file: int) -> list[str]:
    """Read the lines of a file; none of one that is not indexed.

    Args:
        bundle: The version.
        file: Row of the file in the directory.

    Returns:
        Lines without their ends; those before the first chunk are empty.
    """
    rows = _rows(bundle, file)
    if not rows:
        return []
    chunks = bundle.catalog.index.chunks[rows.start : rows.stop]
    return [""] * int(chunks["start_line"][0]) + bundle.catalog.stored_texts.text_of(chunks).split("\n")


def require_indexed(bundle: Bundle, file: int) -> None:
    """Raise NotFoundError, with the reason, when a file of the census was left out of the index."""
    if _rows(bundle, file):
        return
    reason = bundle.catalog.skip_reason(file) or "it holds no text"
    raise NotFoundError(f"the file is not indexed: {reason}", suggestion="describe_index counts what is left out")


def definitions_in(bundle: Bundle, files: Iterable[int]) -> dict[int, list[NestedDefinition]]:
    """Return the definitions of files in the order of their lines; those of modules are left out.

    Args:
        bundle: The version.
        files: Rows of files in the directory.

    Returns:
        Definitions by file; a file without any is left out.
    """
    rows = [row for file in files for row in _rows(bundle, file)]
    by_file: dict[int, list[SymbolRow]] = {}
    for definition in bundle.symbols.starting_in(rows):
        if definition.kind != "module":
            by_file.setdefault(definition.file, []).append(definition)
    return {file: _nested(found) for file, found in by_file.items()}


def around(definitions: Sequence[NestedDefinition], first: int, last: int) -> list[NestedDefinition]:
    """Return the definitions that hold a range of lines, from outside to inside.

    Args:
        definitions: Definitions of the file.
        first: First line, 0-based.
        last: Last line, 0-based, inclusive.

    Returns:
        Definitions.
    """
    return [one for one in definitions if one.first <= first and last <= one.last]


def beside(
    definitions: Sequence[NestedDefinition], first: int, last: int, depth: int
) -> tuple[NestedDefinition | None, NestedDefinition | None]:
    """Return the definitions next to a range of lines.

    Args:
        definitions: Definitions of the file.
        first: First line, 0-based.
        last: Last line, 0-based, inclusive.
        depth: Deepest nesting of a neighbour.

    Returns:
        The nearest one that ends before the range, and the nearest that starts behind it; None where there is none.
    """
    candidates = [one for one in definitions if one.depth <= depth]
    before = [one for one in candidates if one.last < first]
    after = [one for one in candidates if one.first > last]
    return (
        max(before, key=lambda one: (one.last, -one.depth), default=None),
        min(after, key=lambda one: (one.first, one.depth), default=None),
    )


def _rows(bundle: Bundle, file: int) -> range:
    return bundle.directory.rows_in(file)


def _line_start(text: str, line: int) -> int:
    """Return the first character of a line of a text; its end when it has fewer lines."""
    at = 0
    for _ in range(line):
        at = text.find("\n", at) + 1
        if not at:
            return len(text)
    return at


def _byte_at(pieces: Sequence[str], starts: Sequence[int], at: int) -> int:
    """Return the byte of a character in its file.

    Args:
        pieces: Texts of consecutive chunks.
        starts: First byte of each.
        at: Character in their joined text.

    Returns:
        The byte.
    """
    for piece, start in zip(pieces[:-1], starts, strict=False):
        if at < len(piece):
            return start + len(piece[:at].encode())
        at -= len(piece)
    return starts[-1] + len(pieces[-1][:at].encode())


def _nested(found: list[SymbolRow]) -> list[NestedDefinition]:
    """Order the definitions of a file and count what is around each."""
    found.sort(key=lambda row: (row.body_start_line, -row.body_end_line, row.start_line, row.start_column))
    nested: list[NestedDefinition] = []
    open_now: list[SymbolRow] = []
    seen: set[tuple[str, int]] = set()
    for row in found:
        if (row.qualified_name, row.start_line) in seen:
            continue
        seen.add((row.qualified_name, row.start_line))
        while open_now and not _encloses(open_now[-1], row):
            open_now.pop()
        open_now.append(row)
        nested.append(NestedDefinition(row, len(open_now)))
    return nested


def _encloses(outer: SymbolRow, row: SymbolRow) -> bool:
    """Tell whether a definition holds one that does not start before it; on the same lines, their names decide."""
    if row.body_end_line > outer.body_end_line or row.body_start_line > outer.body_end_line:
        return False
    same = (row.body_start_line, row.body_end_line) == (outer.body_start_line, outer.body_end_line)
    return not same or row.qualified_name.startswith(f"{outer.qualified_name}.")
