"""The ``.git`` of a watched work tree: its place, the files in it that tell of a commit, and git at work."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from codequarry.schemas.trust.git_index import git_top

EXCLUDES = "info/exclude"
_OF_HEAD = ("HEAD", "reftable")
_OF_ALL = ("packed-refs", "refs/heads", "reftable", EXCLUDES)
_REBASES = ("rebase-merge", "rebase-apply")
_LINK_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class GitFolder:
    """Places of git's own files about a work tree."""

    top: Path
    """Top of the work tree."""
    own: Path
    """Folder with HEAD and index of this work tree."""
    common: Path
    """Folder with the branches, which linked work trees share; else the same."""

    @staticmethod
    def around(root: Path) -> GitFolder | None:
        """Return the places for the work tree that holds a folder.

        Args:
            root: Resolved folder.

        Returns:
            The places; None without git, or when they cannot be read.
        """
        top = git_top(root)
        if top is None:
            return None
        try:
            link = top / ".git"
            own = link if link.is_dir() else top / _read_line(link).removeprefix("gitdir: ")
            shared = own / "commondir"
            common = own / _read_line(shared) if shared.is_file() else own
            return GitFolder(top, own.resolve(), common.resolve())
        except OSError:
            return None

    def tells(self, path: Path) -> bool | None:
        """Return whether a path tells of another commit or of other ignore rules.

        Args:
            path: Path that changed.

        Returns:
            None when the path is none of git's own.
        """
        for folder, names in ((self.own, _OF_HEAD), (self.common, _OF_ALL)):
            if path.is_relative_to(folder):
                name = path.relative_to(folder).as_posix()
                if not name.endswith(".lock") and any(name == each or name.startswith(f"{each}/") for each in names):
                    return True
        return False if path.is_relative_to(self.own) or path.is_relative_to(self.common) else None

    def index_lock(self) -> tuple[str, int] | None:
        """Return the lock that git holds while it writes the work tree, with its time; None when there is none."""
        lock = self.own / "index.lock"
        try:
            return os.fspath(lock), lock.stat().st_mtime_ns
        except OSError:
            return None

    def is_rebasing(self) -> bool:
        """Return whether a rebase runs or has stopped."""
        return any(os.path.lexists(self.own / name) for name in _REBASES)


def _read_line(file: Path) -> str:
    with file.open("rb") as stream:
        return stream.read(_LINK_BYTES).decode("utf-8", "surrogateescape").strip()
