"""Reading the commit that a git work tree is at, and which of its files were written since, without git.

Formats: ``gitrepository-layout(5)``. A repository whose references are in another format tells no commit.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from codequarry.schemas.errors import SourceError
from codequarry.schemas.trust.git_index import git_folder, git_top, tracked_paths

_COMMIT = re.compile(rb"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_REFERENCE = re.compile(rb"refs/[^\0-\x20~^:?*\\\[]+\Z")
_DEEPEST = 5
"""References in a row, as git follows them."""
_MOST_BYTES = 16 << 20


def head_commit_of(folder: Path) -> str:
    """Return the commit id that ``HEAD`` of a folder's work tree stands for.

    Args:
        folder: A folder of a work tree, or any other.

    Returns:
        The commit id; "" without git, without a commit, and where the files cannot be read.
    """
    top = git_top(folder)
    if top is None:
        return ""
    try:
        git = git_folder(top)
    except SourceError:
        return ""
    common = _small(git / "commondir").strip()
    places = (git, git / os.fsdecode(common)) if common else (git,)
    value = _small(git / "HEAD").strip()
    for _ in range(_DEEPEST):
        if _COMMIT.match(value):
            return value.decode("ascii")
        name = value.removeprefix(b"ref:").strip()
        if name == value or not _REFERENCE.match(name) or b".." in name:
            return ""
        loose = (_small(place / os.fsdecode(name)).strip() for place in places)
        value = next(filter(None, loose), b"") or _packed(places[-1], name)
    return ""


def head_branch_of(folder: Path) -> str:
    """Return the branch that a folder's work tree is on; "" without git, and where no branch is checked out."""
    top = git_top(folder)
    if top is None:
        return ""
    try:
        head = _small(git_folder(top) / "HEAD").strip()
    except SourceError:
        return ""
    name = head.removeprefix(b"ref:").strip()
    return os.fsdecode(name).removeprefix("refs/heads/") if name != head and name.startswith(b"refs/heads/") else ""


def main_work_tree(top: Path) -> Path | None:
    """Return the main work tree of a linked one, as both sides say.

    Args:
        top: Top of a work tree.

    Returns:
        Top of the main work tree; None for a work tree that is not linked, or whose repository does not know it.
    """
    if (top / ".git").is_dir():
        return None
    try:
        git = git_folder(top)
    except SourceError:
        return None
    common, back = _small(git / "commondir").strip(), _small(git / "gitdir").strip()
    if not common or not back or os.path.realpath(os.fsdecode(back)) != os.path.realpath(top / ".git"):
        return None
    folder = Path(os.path.realpath(git / os.fsdecode(common)))
    return folder.parent if folder.name == ".git" else None


def written_since(folder: Path, at_ns: int) -> list[str]:
    """Return the tracked files at or below a folder that were written, or removed, after a time.

    Args:
        folder: A folder of a work tree, or any other.
        at_ns: Nanoseconds since 1970.

    Returns:
        Paths below the folder; none without git, and where its index cannot be read.
    """
    real = Path(os.path.realpath(folder))
    top = git_top(real)
    if top is None:
        return []
    within = "" if top == real else f"{real.relative_to(top)}/"
    found: list[str] = []
    try:
        for path in map(os.fsdecode, tracked_paths(top)):
            if path.startswith(within) and ".." not in path.split("/") and _is_later(os.path.join(top, path), at_ns):
                found.append(path.removeprefix(within))
    except SourceError:
        return []
    return found


def _is_later(file: str, at_ns: int) -> bool:
    try:
        status = os.lstat(file)
    except OSError:
        return True
    return not stat.S_ISDIR(status.st_mode) and status.st_mtime_ns > at_ns


def _packed(git: Path, name: bytes) -> bytes:
    for line in _small(git / "packed-refs").splitlines():
        commit, _, packed = line.partition(b" ")
        if packed == name:
            return commit
    return b""


def _small(file: Path) -> bytes:
    """Return the bytes of a regular file; none where there is none, or where it is large."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return b""
        return stream.read()
