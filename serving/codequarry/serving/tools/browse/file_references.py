"""References to files as people and programs write them: a path, a range of lines, a link, a line of a stack trace.

A text may be read in several ways, because the name of a file may hold a colon or a number sign. The first reading
whose file exists is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np

from codequarry.schemas.errors import InvalidArgumentError, NotFoundError
from codequarry.schemas.wire.symbols import MAX_URI_CHARS
from codequarry.serving.catalog import present
from codequarry.serving.catalog.directory import ChunkDirectory

SCHEME = "repo://"
MOST_NAMED = 3
"""Files that an error names."""
_LINES = r"L?(?P<first>\d{1,9})(?:C\d+)?(?:-L?(?P<last>\d{1,9})(?:C\d+)?|:(?P<column>\d{1,9}))?"
_FRAGMENT = re.compile(_LINES)
_PLACE = re.compile(rf"(?P<path>[^\n]+?)[:#]{_LINES}(?:[:,;\s)][^\n]*)?")
_PYTHON_FRAME = re.compile(r'File "(?P<path>[^"\n]+)", line (?P<first>\d{1,9})(?:, in (?P<function>[^\s]+))?')
_FRAME = re.compile(r"(?:\bat\s+)?(?:(?:async|new)\s+)?(?P<function>[^\s()]+)\s+\((?P<place>[^()\n]+:\d+)\)")
_LEAD = re.compile(r"(?:at|in|-->)\s+")
_SCHEME = re.compile(r"[a-z][a-z-]+:///?")
_DRIVE = re.compile(r"[A-Za-z]:/|/|~/|\.\.?/")


class FileReference(NamedTuple):
    """One reading of a reference. Lines and columns are 1-based; 0 where none is given."""

    path: str
    first: int = 0
    last: int = 0
    column: int = 0
    function: str = ""
    """Name of the function that a stack trace names; "" elsewhere."""


class FilePlace(NamedTuple):
    """File that a reference means, and the lines in it."""

    file: int
    """Row of the file in the directory."""
    reference: FileReference
    guessed: bool = False
    """True when the path was written in another way than the index has it."""


def readings(text: str) -> Iterator[FileReference]:
    """Return the ways to read a reference, the most literal one first.

    >>> list(readings("src/a.py:10-20"))[-1]
    FileReference(path='src/a.py', first=10, last=20, column=0, function='')
    >>> list(readings('File "src/a.py", line 12, in Worker.run'))[0]
    FileReference(path='src/a.py', first=12, last=12, column=0, function='Worker.run')
    >>> list(readings("at Worker.run (src/a.ts:10:5)"))[0]
    FileReference(path='src/a.ts', first=10, last=10, column=5, function='Worker.run')

    Args:
        text: What the caller sent.

    Yields:
        Readings, of which at most one means a file.
    """
    text = text.strip()
    if text.startswith(SCHEME):
        place, _, fragment = text[len(SCHEME) :].partition("#")
        lines = _FRAGMENT.fullmatch(fragment)
        yield FileReference(unquote(place), *(_numbers(lines) if lines else (0, 0, 0)))
        return
    if (frame := _PYTHON_FRAME.search(text)) is not None:
        line = int(frame["first"]) or -1
        yield FileReference(frame["path"], line, line, function=frame["function"] or "")
        return
    if (frame := _FRAME.search(text)) is not None and (place := _PLACE.fullmatch(frame["place"])) is not None:
        yield FileReference(place["path"], *_numbers(place), frame["function"])
        return
    yield FileReference(text)
    if (lead := _LEAD.match(text)) is not None:
        text = text[lead.end() :]
    if (place := _PLACE.fullmatch(text)) is not None:
        yield FileReference(place["path"], *_numbers(place))


def find_place(directory: ChunkDirectory, text: str) -> FilePlace:
    """Return the place that a reference means.

    Args:
        directory: Directory of the version.
        text: What the caller sent.

    Returns:
        The place.

    Raises:
        InvalidArgumentError: The reference means several files, or lines that cannot exist.
        NotFoundError: The version has no such file.
    """
    tried = list(readings(text[:MAX_URI_CHARS]))
    place = next((found for one in tried if (found := _exact(directory, one)) is not None), None)
    place = place or next((found for one in reversed(tried) if (found := _loose(directory, one)) is not None), None)
    if place is None:
        raise _unknown(directory, tried[-1].path)
    first, last = place.reference.first, place.reference.last
    if last and not 0 < first <= last:
        raise InvalidArgumentError("lines: expected first-last, counted from 1", suggestion="write path:10-20")
    return place


def named_place(directory: ChunkDirectory, text: str) -> FilePlace | None:
    """Return the place in a file that a text means; None when it is no reference to a line of a file of the version."""
    if not any(one.first for one in readings(text[:MAX_URI_CHARS])):
        return None
    try:
        place = find_place(directory, text)
    except (InvalidArgumentError, NotFoundError):
        return None
    return place if place.reference.first else None


def files_below(directory: ChunkDirectory, path: str) -> np.ndarray | None:
    """Select the files of a folder.

    Args:
        directory: Directory of the version.
        path: The folder, with or without its repository; "" or "." for everything.

    Returns:
        (files,) bool; None when there is no such folder.
    """
    if path.startswith(SCHEME):
        path = unquote(path[len(SCHEME) :].partition("#")[0])
    path = path.strip().removeprefix("./").strip("/")
    if path in ("", "."):
        return np.ones(len(directory.paths), np.bool_)
    start, prefix = f"{path}/", path.partition("/")
    inside = prefix[2] + "/" if prefix[2] else ""
    found = np.fromiter(
        (
            own.startswith(start) or (repo == prefix[0] and own.startswith(inside))
            for repo, own in zip(directory.repos, directory.paths, strict=True)
        ),
        np.bool_,
        len(directory.paths),
    )
    return found if found.any() else None


def looks_like_path(text: str) -> bool:
    """Tell whether a text that means nothing was rather meant as a path than as an id.

    >>> looks_like_path("src/a.py"), looks_like_path("k3x9q")
    (True, False)
    """
    return len(text) <= MAX_URI_CHARS and any(mark in text for mark in "/.:#\\")


def _numbers(match: re.Match[str]) -> tuple[int, int, int]:
    """Return first and last line and the column of a match; -1 for a line 0, which no file has."""
    first = int(match["first"]) or -1
    return first, int(match["last"] or first), int(match["column"] or 0)


def _exact(directory: ChunkDirectory, reference: FileReference) -> FilePlace | None:
    """Find the file of exactly this path, with or without its repository.

    Args:
        directory: Directory of the version.
        reference: One reading.

    Returns:
        The place; None when there is no such file.

    Raises:
        InvalidArgumentError: Several repositories have the file.
    """
    path = reference.path.removeprefix("./").rstrip("/")
    repo, _, rest = path.partition("/")
    file = directory.find(repo, rest)
    if file is not None:
        return FilePlace(file, reference)
    files = [file for repo in directory.repo_names if (file := directory.find(repo, path)) is not None]
    if len(files) > 1:
        raise InvalidArgumentError(
            f"{len(files)} repositories have a file of this path",
            suggestion=f"write repository/path: {_quote_files(directory, files)}",
        )
    return FilePlace(files[0], reference) if files else None


def _loose(directory: ChunkDirectory, reference: FileReference) -> FilePlace | None:
    """Find the one file that a path of another machine, the end of a path or a link without odd characters means.

    Args:
        directory: Directory of the version.
        reference: One reading.

    Returns:
        The place; None when there is no such file.

    Raises:
        InvalidArgumentError: Several files are meant.
    """
    path = _SCHEME.sub("/", reference.path.replace("\\", "/"), count=1)
    if not path or path.isspace():
        return None
    if _DRIVE.match(path):
        parts = path.split("/")
        for start in range(1, len(parts)):
            shorter = "/".join(parts[start:])
            if shorter and (found := _exact(directory, reference._replace(path=shorter))) is not None:
                return found._replace(reference=reference, guessed=True)
        return None
    files = [
        file
        for file, (repo, own) in enumerate(zip(directory.repos, directory.paths, strict=True))
        if own.endswith(f"/{path}") or (not own.isprintable() and present.printable(f"{repo}/{own}") == path)
    ]
    if len(files) > 1:
        raise InvalidArgumentError(
            f"{len(files)} files end with this path", suggestion=f"write one of {_quote_files(directory, files)}"
        )
    return FilePlace(files[0], reference, guessed=True) if files else None


def _unknown(directory: ChunkDirectory, path: str) -> NotFoundError:
    if path.strip("/. ") and files_below(directory, path) is not None:
        return NotFoundError(
            "this is a folder, expected a file", suggestion="use list_files or outline for folders, or search"
        )
    name = "/" + path.rsplit("/", 1)[-1]
    near = [file for file, own in enumerate(directory.paths) if name != "/" and f"/{own}".endswith(name)]
    return NotFoundError(
        "no such file in this version of the index",
        suggestion=f"there is {_quote_files(directory, near)}"
        if near
        else "write repository/path, as in results of search",
    )


def _quote_files(directory: ChunkDirectory, files: list[int]) -> str:
    """Return the first of these files by name."""
    uris = (f"{directory.repos[file]}/{directory.paths[file]}" for file in files[:MOST_NAMED])
    return ", ".join(repr(present.printable(uri)[:200]) for uri in uris)
