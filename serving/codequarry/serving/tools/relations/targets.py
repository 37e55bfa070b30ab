"""Targets of ``relations``: a name, a place, a path or a diff, as definitions and files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from codequarry.schemas.errors import InvalidArgumentError, NotFoundError
from codequarry.schemas.wire.relations import MAX_TARGET_CHARS, RelationsRequest
from codequarry.schemas.wire.symbols import MAX_SYMBOL_CHARS, SymbolTarget
from codequarry.serving.catalog import present
from codequarry.serving.catalog.definition_rows import SymbolRow
from codequarry.serving.tools.browse.file_references import FilePlace, files_below, find_place, looks_like_path
from codequarry.serving.tools.browse.file_text import around, definitions_in
from codequarry.serving.tools.symbol_target import resolve
from codequarry.serving.version.open import Bundle

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_MOST_ROWS = 200
"""Definitions of one target that are followed."""
_MOST_FILES = 2_000
"""Files of a folder that are followed."""


class RelationTarget(NamedTuple):
    """Subject of a question about relations."""

    rows: list[SymbolRow]
    files: list[int]
    """Files that are meant as a whole, or that a diff changes."""
    notes: list[str]
    is_file: bool = False
    """True when a path or a diff was given, and no name."""
    text: str = ""
    """Lines of a diff that change; "" for other targets."""


class DiffFile(NamedTuple):
    """A file of a diff."""

    path: str
    spans: list[tuple[int, int]]
    """First and last lines that change, 0-based and inclusive, before and after the change."""
    lines: list[str]
    """The lines that go or come."""


def find_target(bundle: Bundle, request: RelationsRequest) -> RelationTarget:
    """Find what a question is about.

    Args:
        bundle: The version.
        request: The question.

    Returns:
        Definitions and files.

    Raises:
        InvalidArgumentError: The target is empty, too long, or no valid reference.
        NotFoundError: There is no such file.
    """
    text = request.target
    if not text.strip() or len(text) > MAX_TARGET_CHARS:
        raise InvalidArgumentError(
            f"target: has {len(text)} characters, expected 1 to {MAX_TARGET_CHARS}",
            suggestion="give a name, path:line, a path, or the diff of a change",
        )
    if changed := changed_files(text):
        return _of_diff(bundle, changed)
    text = text.strip()
    if "\n" in text or len(text) > MAX_SYMBOL_CHARS:
        raise InvalidArgumentError(
            "target: several lines that are no unified diff", suggestion="give the output of `git diff`, or one name"
        )
    if (place := _file_of(bundle, text)) is not None and not place.reference.first:
        return _of_files(bundle, [place.file])
    if place is None and looks_like_path(text) and (below := files_below(bundle.directory, text)) is not None:
        files = bundle.directory.in_order(below & bundle.directory.indexed)[:_MOST_FILES]
        return RelationTarget([], files, [], is_file=True)
    found = resolve(bundle, SymbolTarget(symbol=text))
    if place is None and not found.found.rows and "/" in text:
        raise NotFoundError("target: no file, folder or definition is called so", suggestion="list_files tells paths")
    return RelationTarget(found.found.rows[:_MOST_ROWS], [], list(found.notes))


def changed_files(diff: str) -> list[DiffFile]:
    r"""Return the files of a unified diff with the lines that change.

    >>> changed_files("--- a/x.py\n+++ b/x.py\n@@ -3,2 +3,1 @@\n-a\n-b\n+c\n")
    [DiffFile(path='x.py', spans=[(2, 3), (2, 2)], lines=['a', 'b', 'c'])]

    Args:
        diff: The text.

    Returns:
        Files; none when it is no diff.
    """
    found: dict[str, DiffFile] = {}
    before, file = "", None
    old = new = 0
    for line in diff.split("\n"):
        if line.startswith("--- "):
            before, file = _path(line), None
        elif line.startswith("+++ ") and before:
            path = _path(line)
            path = before if path == "/dev/null" else path
            file = found.setdefault(path, DiffFile(path, [], []))
        elif file is not None and (hunk := _HUNK.match(line)) is not None:
            old, new = int(hunk[1]) - 1, int(hunk[3]) - 1
        elif file is not None and line[:1] in ("-", "+", " "):
            if line[0] != " ":
                _extend(file.spans, max(0, old if line[0] == "-" else new))
                file.lines.append(line[1:])
            old += line[0] != "+"
            new += line[0] != "-"
    return list(found.values())


def _extend(spans: list[tuple[int, int]], line: int) -> None:
    """Add a line to spans, to the last one where it follows that."""
    if spans and spans[-1][1] == line - 1:
        spans[-1] = (spans[-1][0], line)
    else:
        spans.append((line, line))


def _path(line: str) -> str:
    """Return the path of a line that begins with ``---`` or ``+++``, without git's ``a/`` and ``b/``."""
    path = line[4:].split("\t")[0].strip()
    return path[2:] if path.startswith(("a/", "b/")) else path


def _file_of(bundle: Bundle, text: str) -> FilePlace | None:
    try:
        return find_place(bundle.directory, text) if looks_like_path(text) else None
    except NotFoundError:
        return None


def _of_files(bundle: Bundle, files: Sequence[int]) -> RelationTarget:
    nested = definitions_in(bundle, files)
    rows = [one.row for file in files for one in nested.get(file, [])]
    return RelationTarget(rows[:_MOST_ROWS], list(files), [], is_file=True)


def _of_diff(bundle: Bundle, changed: Sequence[DiffFile]) -> RelationTarget:
    """Return the definitions whose lines a diff changes, the innermost ones, and its files."""
    notes, files, rows = list[str](), list[int](), dict[int, SymbolRow]()
    for path, spans, _ in changed:
        if (place := _file_of(bundle, f"./{path}")) is None:
            notes.append(f"not indexed: {present.printable(path)}")
            continue
        files.append(place.file)
        nested = definitions_in(bundle, [place.file]).get(place.file, [])
        for first, last in spans:
            for line in sorted({first, last, *(one.first for one in nested if first <= one.first <= last)}):
                rows |= {one.row.symbol_id: one.row for one in around(nested, line, line)[-1:]}
    text = "\n".join(line for each in changed for line in each.lines)
    return RelationTarget(list(rows.values())[:_MOST_ROWS], files, notes, is_file=True, text=text)
