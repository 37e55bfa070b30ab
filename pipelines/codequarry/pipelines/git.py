"""Reading a git work tree without running anything the repository brings along.

Only plumbing commands that call no hook, filter, fsmonitor, pager or external diff are used: a repository's own
configuration is somebody else's program (CVE-2025-68144 and its kin). What differs from HEAD is decided by hashing
the files here, not by ``git status``, which would run the repository's clean filters.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from codequarry.schemas.errors import SourceError

_SAFE = (
    "--no-optional-locks",
    "-c", "core.fsmonitor=false",
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.untrackedCache=false",
    "-c", "protocol.allow=never",
    "-c", "safe.directory=*",
)  # fmt: skip
_TIMEOUT_S = 120

SYMLINK_MODE = "120000"
SUBMODULE_MODE = "160000"


@dataclass(frozen=True, slots=True)
class HeadEntry:
    """A path as HEAD has it."""

    mode: str
    oid: str


@dataclass(frozen=True, slots=True)
class WorkTree:
    """A git work tree: its commit and the paths to look at."""

    root: Path
    commit: str
    head: dict[bytes, HeadEntry]
    paths: tuple[bytes, ...]
    """Tracked and untracked-but-not-ignored paths below the root, sorted."""


def read_work_tree(folder: Path) -> WorkTree | None:
    """List a work tree, or None when the folder is not inside one.

    A folder below the top of a work tree gives the paths below that folder. Raises SourceError: git is missing or
    fails, the repository is bare, or it has no commits.
    """
    inside, complaint = _try_git(folder, "rev-parse", "--is-inside-work-tree")
    if inside is None:
        # Anything else git says is about a repository that is there: taking it for none would drop its .gitignore.
        if complaint.startswith("fatal: not a git repository (or any") and not os.path.lexists(folder / ".git"):
            return None
        raise SourceError(
            f"git cannot read the repository at {folder}: {complaint}",
            suggestion="repair it, or remove its .git to index it as a plain directory",
        )
    if inside.strip() != b"true":
        raise SourceError(
            f"{folder} is a bare repository or inside .git; found no work tree",
            suggestion="give a checked-out work tree, e.g. `git worktree add ../checkout HEAD`",
        )
    commit, _ = _try_git(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if not commit:
        raise SourceError(f"{folder} has no commits", suggestion="commit something first, then index again")
    listed = _git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ".")
    tree = _git(folder, "ls-tree", "-r", "-z", "HEAD", "--", ".")
    head: dict[bytes, HeadEntry] = {}
    for line in filter(None, tree.split(b"\0")):
        meta, _, path = line.partition(b"\t")
        mode, _kind, oid = meta.decode().split()
        head[path] = HeadEntry(mode, oid)
    paths = {path for path in listed.split(b"\0") if path}
    return WorkTree(folder, commit.decode().strip(), head, tuple(sorted(paths | head.keys())))


def blob_oid(data: bytes, like: str) -> str:
    """The object id git gives a blob; ``like`` is any id of the repository (SHA-1 or SHA-256 by its length)."""
    digest = hashlib.sha256() if len(like) == 64 else hashlib.sha1(usedforsecurity=False)
    digest.update(b"blob %d\0" % len(data))
    digest.update(data)
    return digest.hexdigest()


def _git(folder: Path, *arguments: str) -> bytes:
    """Standard output. Raises SourceError: git failed."""
    output, complaint = _try_git(folder, *arguments)
    if output is None:
        raise SourceError(
            f"git {arguments[0]} failed in {folder}: {complaint}",
            suggestion="run `git fsck` there; the repository may be damaged",
        )
    return output


def _try_git(folder: Path, *arguments: str) -> tuple[bytes | None, str]:
    """Standard output, None when git failed, and what it said on standard error."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", *_SAFE, "-C", os.fspath(folder), *arguments],
            capture_output=True, timeout=_TIMEOUT_S, check=False, env=environment, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except FileNotFoundError:
        raise SourceError("git is not installed", suggestion="install git and make sure it is on PATH") from None
    except subprocess.TimeoutExpired:
        raise SourceError(
            f"git {arguments[0]} in {folder} did not finish in {_TIMEOUT_S} s",
            suggestion="check the file system, then index again",
        ) from None
    return (
        done.stdout if done.returncode == 0 else None,
        done.stderr.decode("utf-8", "replace").strip()[:300],
    )
