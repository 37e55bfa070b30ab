"""What the commits that led to one changed, as far as that is in the repository: bounded, and by its objects alone.

``rev-list`` and the raw ``diff-tree`` compare trees and nothing else: no diff program, no text conversion and no check
of signatures, which a repository could configure, is part of them. Objects a partial clone lacks are left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.git import BlobReader
from codequarry.pipelines.git_process import run_git
from codequarry.schemas.errors import SourceError

MAX_COMMITS = 400
MAX_FILES = 8
"""A commit that changes more of them is about none."""
MAX_FILE_BYTES = 200_000
_TIMEOUT_S = 30.0
_MAX_MESSAGE_BYTES = 4_000
_FILE_MODES = ("100644", "100755")
_PARAGRAPH = re.compile(r"\n\s*\n")
_REFERENCE = re.compile(r"\s*\(#\d+\)|^\S+@\S+$")


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
    """The last commits that led to one, it included, and what they changed of some paths, newest first.

    paths: relative to the folder. Merges, first commits, the boundary of a shallow clone, and commits that change more
    than a few files are left out. Empty where git cannot tell, since history is a help and no more.
    """
    options = ("--no-merges", "--min-parents=1", f"--max-count={MAX_COMMITS}", commit, "--", ".")
    try:
        listed = run_git(folder, "rev-list", *options, timeout_s=_TIMEOUT_S)
        raw = run_git(
            folder, "diff-tree", "--stdin", "-r", "-z", "--no-renames", "--relative",
            data=listed.output, timeout_s=_TIMEOUT_S,
        )  # fmt: skip
    except TimeoutError:
        return []
    if not (listed.done and raw.done):
        return []
    changed = {oid: changes for oid, changes in _parsed(raw.output) if 0 < len(changes) <= MAX_FILES}
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


def file_versions(folder: Path, commits: Sequence[Commit]) -> Iterator[tuple[str, str, bytes, bytes]]:
    """(message, path, before, after) of every change whose blobs are there and not too large; in order."""
    with BlobReader(folder) as reader:
        for commit in commits:
            for change in commit.changes:
                old = reader.read(change.old_oid, MAX_FILE_BYTES)
                new = reader.read(change.new_oid, MAX_FILE_BYTES)
                if old is not None and new is not None:
                    yield commit.message, change.path, old, new


def _parsed(raw: bytes) -> Iterator[tuple[str, list[Change]]]:
    """Commits and the regular files they changed, of NUL-separated raw output."""
    oid, changes = "", list[Change]()
    fields = iter(raw.split(b"\0"))
    for field in fields:
        if not field.startswith(b":"):
            if oid:
                yield oid, changes
            oid, changes = field.decode("ascii", "replace"), []
            continue
        old_mode, new_mode, old_oid, new_oid, _status = field[1:].decode("ascii", "replace").split(" ")
        path = next(fields, b"")
        if new_mode in _FILE_MODES and old_mode in _FILE_MODES:
            changes.append(Change(path.decode("utf-8", "surrogateescape"), old_oid, new_oid))


def _message(data: bytes) -> str:
    """Subject and first paragraph of a commit object, without references to issues."""
    text = data.partition(b"\n\n")[2].decode("utf-8", "replace").strip()
    subject, _, rest = text.partition("\n")
    first = _PARAGRAPH.split(rest.strip())[0]
    lines = [subject, *(line for line in first.splitlines() if not re.match(r"[A-Z][A-Za-z-]+: ", line))]
    return _REFERENCE.sub("", "\n".join(lines)).strip()
