"""Ignore rules: patterns of the settings, ``.codequarryignore`` and, where git is not asked, ``.gitignore``.

As in git (gitignore(5)), a file's patterns hold for all below its folder. The deepest file with a matching pattern
wins, and nothing below an ignored folder can be included again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate

from codequarry.pipelines.ignore.patterns import (
    MAX_PATTERN_CHARS,
    MAX_PATTERNS,
    MatchingBudget,
    PatternList,
    is_pattern,
)
from codequarry.schemas.errors import SettingsError

OWN_IGNORE_FILE = ".codequarryignore"
MAX_PATTERNS_IN_FORCE = 100_000
"""Patterns that a folder's ignore file and those above it may have together."""
Read = Callable[[str], bytes | None]
"""The bytes of a file by its path, relative to the root; None when there is none, or it is not a plain file."""


class IgnoreFiles:
    """Verdicts of the ignore files of one name; fastest when paths are asked in sorted order."""

    def __init__(self, name: str, read: Read, work: MatchingBudget | None = None) -> None:
        self._name = name
        self._read = read
        self._work = work or MatchingBudget()
        self._lists: dict[str, PatternList] = {}
        """Patterns by folder: of the folder asked about last, and those above it."""
        self._newest = ""
        self._folders: dict[str, bool] = {"": False}
        self.refused: set[str] = set()
        """Ignore files that are not applied, because they are beyond a limit."""

    def ignores(self, path: str) -> bool:
        """Return whether the file is ignored.

        >>> files = {".codequarryignore": b"*.gen", "keep/.codequarryignore": b"!a.gen"}
        >>> rules = IgnoreFiles(".codequarryignore", files.get)
        >>> rules.ignores("a.gen"), rules.ignores("keep/a.gen"), rules.ignores("keep/b.gen")
        (True, False, True)

        Args:
            path: Path of a file, relative to the root.

        Returns:
            True when the file is ignored.

        Raises:
            TooMuchWorkError: There are too many patterns for the number of paths.
        """
        folder = path.rpartition("/")[0]
        return self._ignores_folder(folder) or self._decide(path, folder)

    def _ignores_folder(self, folder: str) -> bool:
        if (known := self._folders.get(folder)) is not None:
            return known
        above, ignored = "", False
        for each in accumulate(folder.split("/"), "{}/{}".format):
            known = self._folders.get(each)
            ignored = known if known is not None else ignored or self._decide(each + "/", above)
            self._folders[each] = ignored
            above = each
        return ignored

    def _decide(self, path: str, folder: str) -> bool:
        while True:
            verdict = self._patterns(folder).last(path[len(folder) + 1 :] if folder else path)
            if verdict is not None:
                return verdict
            if not folder:
                return False
            folder = folder.rpartition("/")[0]

    def _patterns(self, folder: str) -> PatternList:
        if (known := self._lists.get(folder)) is not None:
            return known
        if self._newest != folder.rpartition("/")[0]:
            # Patterns of other folders are dropped, or memory would grow with the number of folders.
            below = f"{folder}/"
            self._lists = {each: kept for each, kept in self._lists.items() if not each or below.startswith(f"{each}/")}
        self._newest = folder
        file = f"{folder}/{self._name}" if folder else self._name
        lines = (self._read(file) or b"").decode("utf-8", "replace").removeprefix("\ufeff").splitlines()
        if _is_beyond_limits(lines) or sum(map(len, self._lists.values())) + len(lines) > MAX_PATTERNS_IN_FORCE:
            self.refused.add(file)
            lines = []
        self._lists[folder] = made = PatternList(lines, self._work)
        return made


class SettingsPatterns:
    """Patterns of a setting. One for a folder applies to all below it, and one for a file in it wins."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._list = PatternList(lines, MatchingBudget(math.inf))
        self._folders: dict[str, dict[int, bool]] = {"": {}}

    def match_file(self, path: str) -> bool:
        """Return whether the patterns match the path, relative to the root.

        >>> patterns = SettingsPatterns(["docs/", "!docs/keep.md"])
        >>> patterns.match_file("docs/a.md"), patterns.match_file("docs/keep.md"), patterns.match_file("a.md")
        (True, False, False)
        """
        below = self._of_folder(path.rpartition("/")[0])
        own = dict(self._list.matching(path))
        verdict, by_name = False, False
        for index in sorted(below | own):
            if index in own:
                verdict, by_name = own[index], True
            elif below[index] or not by_name:
                verdict, by_name = below[index], False
        return verdict

    def _of_folder(self, folder: str) -> dict[int, bool]:
        """Return the matches of a folder and the folders above it."""
        if (known := self._folders.get(folder)) is not None:
            return known
        found: dict[int, bool] = {}
        for each in accumulate(folder.split("/"), "{}/{}".format):
            known = self._folders.get(each)
            if known is not None:
                found = known
            elif own := self._list.matching(f"{each}/"):
                found = {**found, **dict(own)}
            self._folders[each] = found
        return found


def settings_patterns(lines: tuple[str, ...], setting: str = "[sources] exclude") -> SettingsPatterns:
    """Return the patterns of a setting.

    Args:
        lines: Gitignore patterns.
        setting: Name of the setting, for messages.

    Returns:
        The patterns, ready to match.

    Raises:
        SettingsError: A line is no gitignore pattern, or there are too many lines.
    """
    if len(lines) > MAX_PATTERNS:
        raise SettingsError(
            f"{setting} holds {len(lines):,} patterns, expected at most {MAX_PATTERNS:,}",
            suggestion="name folders instead of files",
        )
    for line in lines:
        if not is_pattern(line):
            raise SettingsError(
                f"{setting} holds {line[:100]!r}, expected gitignore patterns",
                suggestion=f"write it like 'docs/', in at most {MAX_PATTERN_CHARS:,} characters",
            )
    return SettingsPatterns(lines)


def _is_beyond_limits(lines: Sequence[str]) -> bool:
    return len(lines) > MAX_PATTERNS or any(
        len(line) > MAX_PATTERN_CHARS and not line.startswith("#") for line in lines
    )
