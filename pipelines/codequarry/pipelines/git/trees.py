"""Reading a git repository: a work tree as it lies, or one commit from the object store.

Only plumbing commands that call no hook, filter, fsmonitor, pager or external diff are used. Differences to HEAD are
found by hashing the files here, not by ``git status``, which would run the repository's clean filters. A commit is read
from its objects, so that nothing is ever checked out.
"""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from sys import intern

from codequarry.pipelines.git.listing import Listing
from codequarry.pipelines.git.process import LOCAL_TIMEOUT_S, GitResult, run_git, start_git, stop_git
from codequarry.schemas.errors import SourceError
from codequarry.schemas.settings.sources import LimitsSettings

SYMLINK_MODE = "120000"
SUBMODULE_MODE = "160000"
_SKIP_WORKTREE = b"S"
_TAGS = {tag: tag for tag in (b"H", b"S", b"M", b"?", b"h", b"s")}
"""One object in memory per tag, however many files have it."""
_NOT_IGNORED = ("--cached", "--others", "--exclude-standard")
_BLOCK = 1 << 20
LIMITS = LimitsSettings()


@dataclass(frozen=True, slots=True)
class HeadEntry:
    """A path in a commit."""

    mode: str
    oid: str
    size: int | None = None
    """Bytes of the blob; None when not asked for, or when the object is missing."""


@dataclass(frozen=True, slots=True)
class WorkTree:
    """A git work tree: its commit and the paths to look at."""

    root: Path
    commit: str
    """Commit id; "" when there are no commits yet."""
    head: Mapping[bytes, HeadEntry]
    paths: tuple[bytes, ...]
    """Tracked and untracked-but-not-ignored paths below the root, sorted."""
    unchecked: frozenset[bytes]
    """Paths that a sparse checkout leaves out on purpose."""
    unwatched: frozenset[bytes] = frozenset()
    """Paths whose changes git was told not to look for."""


def read_work_tree(folder: Path, limits: LimitsSettings = LIMITS, place: str = "") -> WorkTree | None:
    """List a work tree, or return None when the folder is not inside one.

    A folder below the top of a work tree gives the paths below that folder; one without commits yet has no head.

    Args:
        folder: Folder in the work tree.
        limits: Limits of the listing.
        place: Name of the repository in messages; the folder when "".

    Returns:
        The work tree, or None.

    Raises:
        SourceError: Git is missing or fails, or the repository is bare.
        SourceLimitError: The work tree has more than the limits allow.
    """
    inside = _run(folder, "rev-parse", "--is-inside-work-tree")
    if not inside.done:
        # Any other message means that a repository exists: reading it as a plain folder would drop its .gitignore.
        if inside.complaint.startswith("fatal: not a git repository (or any") and not os.path.lexists(folder / ".git"):
            return None
        raise _unreadable(folder, inside.complaint)
    if inside.output.strip() != b"true":
        raise SourceError(
            f"{folder} is a bare repository or inside .git; found no work tree",
            suggestion=f"name a ref to read it from its commits, as in {folder}#HEAD, or give a checked-out work tree",
        )
    commit = head_commit(folder)
    # Frozen models are hashable, which the checker cannot know.
    head = _tree_of_head(folder, commit, limits, place) if commit else {}  # pyright: ignore[reportArgumentType]
    tags: dict[bytes, bytes] = {}
    listing = Listing(place or str(folder), limits)
    for entry in listing.records(folder, "ls-files", "-z", "-v", *_NOT_IGNORED, "--", "."):
        tag, _, path = entry.partition(b" ")
        if path not in tags:
            listing.add(path)
            tags[path] = _TAGS.get(tag, tag)
    unchecked = frozenset(path for path, tag in tags.items() if tag.upper() == _SKIP_WORKTREE)
    unwatched = unchecked | {path for path, tag in tags.items() if tag.islower()}
    paths = tuple(sorted(tags.keys() | head.keys()))
    return WorkTree(folder, commit, head, paths, unchecked, unwatched)


def changed_paths(folder: Path, before: str, after: str = "", limits: LimitsSettings = LIMITS) -> frozenset[bytes]:
    """Return the paths below a folder that may differ between a commit and the work tree, or another commit.

    A file of the work tree whose status is not the index's is among them, whatever it holds: no content is compared,
    except by git where a file is as young as the index, and then without the filters of the repository.

    Args:
        folder: Folder in the repository.
        before: Commit id.
        after: Id of the other commit; "" for the work tree.
        limits: Limits of the listing.

    Returns:
        Paths relative to the folder.

    Raises:
        SourceError: Git fails, as when it lacks a commit.
        SourceLimitError: There are more than the limits allow.
    """
    command = ["diff-tree", "-r", before, after] if after else ["diff-index", before]
    options = ("--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=all", "--relative", "-z")
    listing = Listing(str(folder), limits)
    found: set[bytes] = set()
    settings = {} if after else _without_filters(folder)
    for path in listing.records(folder, *command[:-1], *options, command[-1], "--", settings=settings):
        listing.add(path)
        found.add(path)
    return frozenset(found)


def _without_filters(folder: Path) -> dict[str, str]:
    """Return settings that turn off every filter which the configuration of a repository names: they are programs."""
    listed = _run(folder, "config", "-z", "--name-only", "--get-regexp", r"^filter\..*\.(clean|process|required)$")
    names = [name.decode("utf-8", "surrogateescape") for name in listed.output.split(b"\0") if name]
    return {name: "false" if name.endswith(".required") else "" for name in names}


def head_commit(folder: Path) -> str:
    """Return the commit a work tree is on.

    Args:
        folder: Folder in the work tree.

    Returns:
        Commit id; "" for a folder in no work tree, or without commits.

    Raises:
        SourceError: Git is missing, or hangs.
    """
    return _run(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").output.decode().strip()


def resolve_ref(folder: Path, ref: str) -> str:
    """Return the id of the commit a ref of a local repository leads to.

    Args:
        folder: Folder of the repository.
        ref: Branch, tag or commit id.

    Returns:
        The commit id.

    Raises:
        SourceError: The folder is no repository, or has no such ref; the message names similar refs.
    """
    inside = _run(folder, "rev-parse", "--git-dir")
    if not inside.done:
        raise _unreadable(folder, inside.complaint)
    found = _run(folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    if not found.done:
        names = _git(folder, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes")
        raise no_such_ref(str(folder), ref, names.decode("utf-8", "replace").split())
    return found.output.decode().strip()


def no_such_ref(place: str, ref: str, names: Iterable[str]) -> SourceError:
    """Return the error for a ref that does not exist, with the most similar names that do."""
    known = sorted(set(names))
    near = difflib.get_close_matches(ref, known, n=3, cutoff=0.5) or known[:3]
    listed = ", ".join(name if name.isprintable() else ascii(name) for name in near)
    return SourceError(
        f"{place} has no branch, tag or commit {ref!r}",
        suggestion=f"did you mean {listed}? A commit id must be written in full" if near else "it has none at all yet",
    )


def read_commit(folder: Path, commit: str, limits: LimitsSettings = LIMITS, place: str = "") -> dict[bytes, HeadEntry]:
    """Return what a commit holds below the folder, by path, with sizes.

    Args:
        folder: Folder of the repository.
        commit: Commit id.
        limits: Limits of the listing.
        place: Name of the repository in messages; the folder when "".

    Returns:
        Entries by path.

    Raises:
        SourceError: Git fails.
        SourceLimitError: The commit has more than the limits allow.
    """
    return _tree(folder, commit, limits, place, "-l")


class BlobReader:
    """Reader of a repository's objects through one ``git cat-file`` process; a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> BlobReader:
        self._process = start_git(self._folder, "cat-file", "--batch")
        return self

    def __exit__(self, *_: object) -> None:
        stop_git(self._process)
        with suppress(BrokenPipeError), self._process:  # a request that git no longer took
            pass

    def read(self, oid: str, at_most: int | None = None) -> bytes | None:
        """Return the bytes of an object.

        Args:
            oid: Object id.
            at_most: Largest size in bytes that is read; no limit when None.

        Returns:
            The bytes; None when the repository lacks the object, or it is larger.

        Raises:
            SourceError: Git died.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(oid.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._died() from None
        header = self._process.stdout.readline().split()
        if header[1:] == [b"missing"]:
            return None
        if len(header) != 3:
            raise self._died()
        size = int(header[2])
        if at_most is not None and size > at_most:
            self._skip(size + 1)
            return None
        data = self._process.stdout.read(size + 1)
        if len(data) != size + 1:
            raise self._died()
        return data[:size]

    def _skip(self, size: int) -> None:
        assert self._process.stdout is not None
        while size:
            if not (block := self._process.stdout.read(min(size, _BLOCK))):
                raise self._died()
            size -= len(block)

    def _died(self) -> SourceError:
        return SourceError(
            f"git cat-file failed in {self._folder}",
            suggestion="run `git fsck` there; objects are damaged, or a partial clone never fetched them",
        )


def blob_oid(data: bytes, like: str) -> str:
    """Return the object id git gives a blob; ``like`` is any id of the repository (SHA-1 or SHA-256 by its length)."""
    digest = hashlib.sha256() if len(like) == 64 else hashlib.sha1(usedforsecurity=False)
    digest.update(b"blob %d\0" % len(data))
    digest.update(data)
    return digest.hexdigest()


@lru_cache(maxsize=4)  # a watch lists the same commit after each save; 32,000 entries take 11 MB
def _tree_of_head(folder: Path, commit: str, limits: LimitsSettings, place: str) -> Mapping[bytes, HeadEntry]:
    return _tree(folder, commit, limits, place)


def _tree(folder: Path, commit: str, limits: LimitsSettings, place: str, *options: str) -> dict[bytes, HeadEntry]:
    entries: dict[bytes, HeadEntry] = {}
    listing = Listing(place or str(folder), limits)
    for line in listing.records(folder, "ls-tree", "-r", *options, "-z", commit, "--", "."):
        meta, _, path = line.partition(b"\t")
        listing.add(path)
        mode, _kind, oid, *size = meta.decode().split()
        entries[path] = HeadEntry(intern(mode), oid, int(size[0]) if size and size[0].isdecimal() else None)
    return entries


def _unreadable(folder: Path, complaint: str) -> SourceError:
    return SourceError(
        f"git cannot read the repository at {folder}: {complaint[:300]}",
        suggestion="repair it, or remove its .git to index it as a plain directory",
    )


def _git(folder: Path, *arguments: str) -> bytes:
    """Return the standard output of a git command.

    Args:
        folder: Folder that git runs in.
        *arguments: Git command and its options.

    Returns:
        Standard output.

    Raises:
        SourceError: Git failed.
    """
    outcome = _run(folder, *arguments)
    if not outcome.done:
        raise SourceError(
            f"git {arguments[0]} failed in {folder}: {outcome.complaint[:300]}",
            suggestion="run `git fsck` there; the repository may be damaged",
        )
    return outcome.output


def _run(folder: Path, *arguments: str) -> GitResult:
    try:
        return run_git(folder, *arguments)
    except TimeoutError:
        raise SourceError(
            f"git {arguments[0]} in {folder} did not finish in {LOCAL_TIMEOUT_S:.0f} s",
            suggestion="check the file system, then index again",
        ) from None
