"""Recent commits of a repository and the files they changed, read from its objects alone, within limits.

``rev-list`` and the raw ``diff-tree`` only compare trees: they run no diff program, text conversion or signature check,
which a repository could configure. Objects that a partial clone lacks are left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.git.listing import Listing
from codequarry.pipelines.git.process import run_git
from codequarry.pipelines.git.trees import BlobReader
from codequarry.schemas.errors import SourceError
from codequarry.schemas.settings.sources import LimitsSettings

MAX_COMMITS = 400
MAX_FILES = 8
"""Commits that change more files are left out: they are about no single one."""
MAX_FILE_BYTES = 200_000
_TIMEOUT_S = 30.0
_LIMITS = LimitsSettings(listing_timeout_s=_TIMEOUT_S)
_MAX_MESSAGE_BYTES = 4_000
_FILE_MODES = ("100644", "100755")
_PARAGRAPH = re.compile(r"\n\s*\n")
_REFERENCE = re.compile(r"(?<!\s)\s*\(#\d+\)|^\S[^\s@]*@\S+$")


@dataclass(frozen=True, slots=True)
class Change:
    """A file that a commit changed."""

    path: str
    old_oid: str
    """Blob before."""
    new_oid: str
    """Blob after."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit with one parent."""

    message: str
    """Subject and first paragraph."""
    changes: tuple[Change, ...]


def read_history(folder: Path, commit: str, paths: Collection[str]) -> list[Commit]:
    """Return the last commits up to a given one, and what they changed of some paths, newest first.

    Merges, first commits, the boundary of a shallow clone, and commits that change more than a few files are left out.

    Args:
        folder: Folder of the repository.
        commit: Id of the commit to start at; it is included.
        paths: Paths relative to the folder.

    Returns:
        Commits; none when git fails, since indexing works without history.
    """
    options = ("--no-merges", "--min-parents=1", f"--max-count={MAX_COMMITS}", commit, "--", ".")
    listing = Listing(str(folder), _LIMITS)
    try:
        listed = run_git(folder, "rev-list", *options, timeout_s=_TIMEOUT_S)
        if not listed.done:
            return []
        records = listing.records(
            folder, "diff-tree", "--stdin", "-r", "-z", "--no-renames", "--relative", data=listed.output
        )
        changed = {oid: changes for oid, changes in _parsed(records) if 0 < len(changes) <= MAX_FILES}
    except (TimeoutError, SourceError):
        return []
    known = frozenset(paths)
    found: list[Commit] = []
    try:
        with BlobReader(folder) as reader:
            for oid, changes in changed.items():
                own = tuple(change for change in changes if change.path in known)
                data = reader.read(oid, _MAX_MESSAGE_BYTES) if own else None
                if data is not None:
                    found.append(Commit(_message(data), own))
    except SourceError:
        return []
    return found


def count_between(folder: Path, before: str, after: str) -> tuple[int, int] | None:
    """Count the commits that lie between two others.

    Args:
        folder: A folder of the work tree.
        before: Commit id.
        after: Commit id.

    Returns:
        Number of commits that the second has and the first lacks, and the other way round; None where git cannot say.
    """
    try:
        counted = run_git(folder, "rev-list", "--left-right", "--count", f"{before}...{after}", "--")
    except (SourceError, TimeoutError):
        return None
    numbers = counted.output.split()
    return (int(numbers[1]), int(numbers[0])) if counted.done and len(numbers) == 2 else None


def file_versions(folder: Path, commits: Sequence[Commit]) -> Iterator[tuple[str, str, bytes, bytes]]:
    """Yield (message, path, before, after) of every change whose blobs are present and not too large, in order."""
    with BlobReader(folder) as reader:
        for commit in commits:
            for change in commit.changes:
                old = reader.read(change.old_oid, MAX_FILE_BYTES)
                new = reader.read(change.new_oid, MAX_FILE_BYTES)
                if old is not None and new is not None:
                    yield commit.message, change.path, old, new


def _parsed(fields: Iterator[bytes]) -> Iterator[tuple[str, list[Change]]]:
    """Yield commits and the regular files they changed, from the fields of raw output.

    Of a commit with too many changes only the first MAX_FILES + 1 are kept.
    """
    oid, changes = "", list[Change]()
    for field in fields:
        if not field.startswith(b":"):
            if oid:
                yield oid, changes
            oid, changes = field.decode("ascii", "replace"), []
            continue
        old_mode, new_mode, old_oid, new_oid, _status = field[1:].decode("ascii", "replace").split(" ")
        path = next(fields, b"")
        if new_mode in _FILE_MODES and old_mode in _FILE_MODES and len(changes) <= MAX_FILES:
            changes.append(Change(path.decode("utf-8", "surrogateescape"), old_oid, new_oid))
    if oid:
        yield oid, changes


def _message(data: bytes) -> str:
    """Return subject and first paragraph of a commit object, without references to issues."""
    text = data.partition(b"\n\n")[2].decode("utf-8", "replace").strip()
    subject, _, rest = text.partition("\n")
    first = _PARAGRAPH.split(rest.strip())[0]
    lines = [subject, *(line for line in first.splitlines() if not re.match(r"[A-Z][A-Za-z-]+: ", line))]
    return _REFERENCE.sub("", "\n".join(lines)).strip()
