"""Matching of many gitignore patterns against many paths: indexed by literal parts, matched by RE2, limited in work.

An ignore file may come from anybody. Python's own engine takes exponential time for a pattern like ``a*a*a*a*b``, and a
set of RE2 gives up beyond a few thousand patterns. So each pattern is looked up by a literal part that a path must
have. Only the candidates are matched, each in time linear in the path. The work of a whole census has a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import re2
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

MAX_PATTERNS = 50_000
"""Patterns that one file or setting may have."""
MAX_PATTERN_CHARS = 1_024
WORK_LIMIT = 20_000_000_000
"""Characters of patterns times characters of paths that one census may compare: some minutes at worst."""
_WORK_OF_READING = 200
"""Work that a character of an ignore file costs when the file is read."""
_FOLDER_OR_END = "(?:(?P<ps_d>/)|$)"
_FOLDER = "(?P<ps_d>/)"
"""Ends of pathspec's regular expressions: of a pattern for files and folders, and of one for folders alone."""
_SPECIAL = re.compile(r"[*?\[\\]")
_COMPILED = 4_096
Key = tuple[str, str]


class TooMuchWorkError(Exception):
    """Matching has used up the work that a census may spend on it."""


class MatchingBudget:
    """Budget of work of a census; shared by its pattern lists."""

    def __init__(self, limit: float = WORK_LIMIT) -> None:
        self._left = limit

    def spend(self, amount: int) -> None:
        """Take from what is left.

        Args:
            amount: Characters of patterns times characters of paths.

        Raises:
            TooMuchWorkError: The budget is spent; every later call raises it, too.
        """
        self._left -= amount
        if self._left < 0:
            raise TooMuchWorkError


class _Pattern(NamedTuple):
    regex: str
    include: bool


class PatternList:
    """Patterns in their order. Paths are relative to the folder of the patterns; a folder's path ends with '/'."""

    def __init__(self, lines: Sequence[str], work: MatchingBudget) -> None:
        """Translate and index patterns.

        Args:
            lines: Patterns, comments and blank lines; what git would pass over is passed over.
            work: Budget of the census.

        Raises:
            TooMuchWorkError: Reading the patterns takes more than is left of the budget.
        """
        work.spend(_WORK_OF_READING * sum(map(len, lines)))
        self._work = work
        self._patterns: list[_Pattern] = []
        self._by_key: dict[Key, list[int]] = {}
        self._any: list[int] = []
        """Patterns without a literal part to look them up by."""
        for line in lines:
            pattern = _translated(line)
            if pattern is not None:
                self._file(line, len(self._patterns))
                self._patterns.append(pattern)
        self._any_last_first = self._any[::-1]
        self._prefixes = sorted({len(text) for kind, text in self._by_key if kind == "prefix"})
        self._suffixes = sorted({len(text) for kind, text in self._by_key if kind == "suffix"})

    def __len__(self) -> int:
        return len(self._patterns)

    def last(self, path: str) -> bool | None:
        """Return the verdict of the last pattern that matches the path itself.

        Args:
            path: Path relative to the folder of the patterns.

        Returns:
            True to leave the path out, False to take it in; None when no pattern matches.

        Raises:
            TooMuchWorkError: The budget is spent.
        """
        if self._patterns:
            for index in self._matching(path):
                return self._patterns[index].include
        return None

    def matching(self, path: str) -> list[tuple[int, bool]]:
        """Return (position, verdict) of each pattern that matches the path itself, the last one first.

        Args:
            path: Path relative to the folder of the patterns.

        Returns:
            Positions and verdicts, which are True to leave the path out.

        Raises:
            TooMuchWorkError: The budget is spent.
        """
        return [(index, self._patterns[index].include) for index in self._matching(path)] if self._patterns else []

    def _matching(self, path: str) -> Iterator[int]:
        for index in self._candidates(path):
            pattern = self._patterns[index]
            self._work.spend((len(pattern.regex) + 16) * (len(path) + 16))
            compiled = _compiled(pattern.regex)
            if compiled is not None and compiled.search(path) is not None:
                yield index

    def _candidates(self, path: str) -> list[int]:
        """Return the patterns that may match, by descending position."""
        parts = path.removesuffix("/").split("/")
        name = parts[-1]
        keys: set[Key] = {("folder", part) for part in parts}
        keys.add(("name", name))
        keys.update(("prefix", name[:size]) for size in self._prefixes if size <= len(name))
        keys.update(("suffix", name[-size:]) for size in self._suffixes if size <= len(name))
        places = [place for key in keys if (place := self._by_key.get(key)) is not None]
        if not places:
            return self._any_last_first
        self._work.spend(16 * (len(self._any) + sum(map(len, places))))
        return sorted({index for place in (self._any, *places) for index in place}, reverse=True)

    def _file(self, line: str, index: int) -> None:
        """Index the pattern by the literal part that the fewest other patterns are indexed by."""
        keys = list(_literal_parts(line))
        if not keys:
            self._any.append(index)
            return
        key = min(keys, key=lambda each: len(self._by_key.get(each, ())))
        self._by_key.setdefault(key, []).append(index)


def is_pattern(line: str) -> bool:
    """Return whether git and RE2 take a line as a pattern; True for comments and blank lines."""
    if len(line) > MAX_PATTERN_CHARS:
        return False
    try:
        regex, _ = GitIgnoreSpecPattern.pattern_to_regex(line)
    except ValueError:
        return False
    return regex is None or _compiled(_of_the_path_itself(regex)) is not None


def _translated(line: str) -> _Pattern | None:
    try:
        regex, include = GitIgnoreSpecPattern.pattern_to_regex(line)
    except ValueError:
        return None
    return None if regex is None or include is None else _Pattern(_of_the_path_itself(regex), include)


def _of_the_path_itself(regex: str) -> str:
    """Return the regular expression that matches only the path itself.

    pathspec's expression also matches what lies below; here folders are asked about one by one.
    """
    if regex.endswith(_FOLDER_OR_END):
        return regex.removesuffix(_FOLDER_OR_END) + "/?$"
    if _FOLDER in regex:
        return regex.replace(_FOLDER, "/$")
    return f"{regex}." if regex.startswith("^") and regex.endswith("/") else regex


def _literal_parts(line: str) -> Iterator[Key]:
    """Yield literal parts that a path must have to match.

    A part is the name of a folder, the path's own name, or the beginning or end of its own name.
    """
    text = line.rstrip().removeprefix("!")
    if "\\" in text:
        return
    *folders, name = text.removesuffix("/").split("/")
    yield from (("folder", part) for part in folders if part and not _SPECIAL.search(part))
    if not name or name == "**":
        return
    special = _SPECIAL.search(name)
    if special is None:
        yield "name", name
        return
    if special.start():
        yield "prefix", name[: special.start()]
    if "[" not in name and (suffix := re.split(r"[*?]", name)[-1]):
        yield "suffix", suffix


def _options() -> re2.Options:
    options = re2.Options()
    options.never_capture = True
    options.log_errors = False
    options.dot_nl = True
    return options


_OPTIONS = _options()


@lru_cache(maxsize=_COMPILED)
def _compiled(regex: str) -> re2._Regexp | None:
    """Return the compiled expression; None when it is invalid, as for a range that runs backwards."""
    try:
        return re2.compile(regex, _OPTIONS)
    except re2.error:
        return None
