"""One watched repository, and which of the paths that changed there can change what is indexed of it.

The names decide first, then git or the ignore files. What is no more than doubtful counts: the census decides.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from codequarry.pipelines.cli.watch.git_folder import EXCLUDES, GitFolder
from codequarry.pipelines.git.process import run_git
from codequarry.pipelines.git.trees import head_commit
from codequarry.pipelines.ignore.patterns import TooMuchWorkError
from codequarry.pipelines.ignore.rules import OWN_IGNORE_FILE, IgnoreFiles, settings_patterns
from codequarry.pipelines.sources.skip import by_name, is_reserved, is_secret
from codequarry.schemas.errors import SourceError
from codequarry.schemas.trust.state_folders import HOME_FOLDER

_GIT_IGNORE = ".gitignore"
_OF_EDITORS = re.compile(r".*~|\.#.*|#.*#|\..*\.sw.|4913|.*___jb_(?:tmp|old)___|\.DS_Store")
"""Names that editors give to files beside the one that they write: the file itself comes with its own name."""
_IGNORE_FILE_BYTES = 1_000_000
_VERDICTS = 20_000
_GIT_TIMEOUT_S = 20.0


class WatchedTree:
    """A repository on this machine.

    Args:
        name: Name of the repository.
        root: Its folder.
        own: Folders that codequarry writes, resolved.
        exclude: Patterns of the settings.
    """

    def __init__(self, name: str, root: Path, own: Iterable[Path], exclude: tuple[str, ...]) -> None:
        self.name = name
        self.root = root.resolve()
        self.git = GitFolder.around(self.root)
        self._own = tuple(each for each in own if not self.root.is_relative_to(each))
        self._excluded = settings_patterns(exclude)
        self._by_git = self.git is not None and not self._is_ignored_itself()
        self._verdicts: dict[str, bool] = {}
        """Answers of git by path: True for an ignored one; of a folder without a tracked file, for all below it."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders to watch: the repository, and git's where those lie outside."""
        beside = {self.git.own, self.git.common} if self.git is not None else set()
        outside = {folder for folder in beside if not folder.is_relative_to(self.root)}
        return (self.root, *sorted(each for each in outside if not any(other in each.parents for other in outside)))

    def identity(self) -> tuple[int, int] | None:
        """Return device and inode of the root; None when it is gone."""
        try:
            status = self.root.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def commit(self) -> str:
        """Return the commit that the work tree is on; "" without git, or where git ignores it or fails."""
        try:
            return head_commit(self.root) if self._by_git else ""
        except SourceError:
            return ""

    def sift(self, paths: Iterable[Path]) -> tuple[set[str], bool]:
        """Return the changed paths that matter to this repository.

        Args:
            paths: Absolute paths that changed, anywhere.

        Returns:
            Paths relative to the root, and whether git's own files tell of another commit.
        """
        inside: set[str] = set()
        moved = False
        for path in paths:
            told = self.git.tells(path) if self.git is not None else None
            if told:
                moved = True
                if path.as_posix().endswith(EXCLUDES):
                    self._verdicts.clear()
                    inside.add("")
            elif told is None and self._is_inside(path):
                inside.add(path.relative_to(self.root).as_posix())
        inside = {path for path in inside if not path or not self._is_out(path)}
        if any(path.rpartition("/")[2] == _GIT_IGNORE for path in inside) or moved:
            self._verdicts.clear()
        return (self._without_ignored(inside) if inside - {""} else inside), moved

    def _is_inside(self, path: Path) -> bool:
        return self.root in path.parents and not any(map(path.is_relative_to, self._own))

    def _is_ignored_itself(self) -> bool:
        """Return whether git ignores the root: then all of its files are indexed as if git were not there."""
        return bool(self._run_git("check-ignore", "-z", "--stdin", data=os.fsencode(self.root)))

    def _is_out(self, path: str) -> bool:
        """Return whether a file of this name is never indexed, wherever git and the ignore files stand."""
        if HOME_FOLDER in path.split("/") or is_reserved(path) or is_secret(path):
            return True
        name = path.rpartition("/")[2]
        return _OF_EDITORS.fullmatch(name) is not None or by_name(path) is not None or self._excluded.match_file(path)

    def _without_ignored(self, paths: set[str]) -> set[str]:
        left = self._without_listed(paths, OWN_IGNORE_FILE)
        return self._ask_git(left) if self._by_git else self._without_listed(left, _GIT_IGNORE)

    def _without_listed(self, paths: set[str], name: str) -> set[str]:
        files = IgnoreFiles(name, self._read)
        try:
            return {path for path in sorted(paths) if not files.ignores(path)}
        except TooMuchWorkError:
            return paths

    def _read(self, path: str) -> bytes | None:
        file = self.root / path
        try:
            status = file.lstat()
            if not stat.S_ISREG(status.st_mode) or status.st_size > _IGNORE_FILE_BYTES:
                return None
            return file.read_bytes()
        except OSError:
            return None

    def _ask_git(self, paths: set[str]) -> set[str]:
        """Return the paths that git does not ignore; it is asked once for each folder and file."""
        if len(self._verdicts) > _VERDICTS:
            self._verdicts.clear()
        if not self._verdicts and not self._load_tracked():
            return paths
        folders = {f"{each}/" for path in paths for each in _folders_of(path)}
        nested = {each for each in folders - self._verdicts.keys() if os.path.lexists(self.root / each / ".git")}
        self._verdicts |= dict.fromkeys(nested, True)  # a repository of its own, which git does not look into
        asked = {each for each in folders | paths if each not in self._verdicts and not self._is_below_ignored(each)}
        if asked:
            data = os.fsencode("".join(f"{path}\0" for path in sorted(asked)))
            ignored = self._run_git("check-ignore", "-z", "--stdin", data=data)
            if ignored is None:
                return paths
            self._verdicts |= {path: path in ignored for path in asked}
        return {path for path in paths if not self._verdicts.get(path) and not self._is_below_ignored(path)}

    def _is_below_ignored(self, path: str) -> bool:
        return any(self._verdicts.get(f"{each}/") for each in _folders_of(path.rstrip("/")))

    def _load_tracked(self) -> bool:
        """Note the folders that git would ignore but for a tracked file in them."""
        tracked = self._run_git("ls-files", "-z", "--cached", "--ignored", "--exclude-standard")
        if tracked is None:
            return False
        self._verdicts = {".git/": True}
        self._verdicts |= {f"{each}/": False for path in tracked for each in _folders_of(path)}
        return True

    def _run_git(self, *arguments: str, data: bytes = b"") -> set[str] | None:
        """Return the paths that git answers with; None when it fails."""
        try:
            done = run_git(self.root, *arguments, data=data, timeout_s=_GIT_TIMEOUT_S)
        except (SourceError, TimeoutError):
            return None
        if not done.done and done.complaint:  # `check-ignore` that finds nothing exits with 1
            return None
        return set(os.fsdecode(done.output).split("\0")) - {""}


def _folders_of(path: str) -> list[str]:
    """Return the folders above a path, the nearest first.

    >>> _folders_of("a/b/c.py"), _folders_of("c.py")
    (['a/b', 'a'], [])
    """
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def is_empty(file: Path) -> bool:
    """Return whether a path is a regular file without a byte."""
    try:
        status = os.lstat(file)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == 0
