"""Questions, the places that answer them, the results that came back, and the even drawing of candidates.

Candidates are drawn over repositories first, then over their files, and always the same under one seed.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest
from typing import NamedTuple, TypeVar


class Target(NamedTuple):
    """A place that answers a question: a file, or lines of it."""

    path: str
    repo: str = ""
    """Name of the repository; "" for whichever has the path."""
    start_line: int = -1
    """First line, 0-based; -1 for the whole file."""
    end_line: int = -1
    """Last line, 0-based, inclusive; -1 for the whole file."""

    def text(self) -> str:
        """Return ``repo/path:first-last``, lines 1-based, as people read it."""
        place = f"{self.repo}/{self.path}" if self.repo else self.path
        return place if self.start_line < 0 else f"{place}:{self.start_line + 1}-{self.end_line + 1}"


class Question(NamedTuple):
    """A query and every place that answers it."""

    id: str
    kind: str
    """Class under which it is reported, e.g. ``A doc``."""
    query: str
    targets: tuple[Target, ...]
    """At least one."""


class Hit(NamedTuple):
    """One returned chunk."""

    repo: str
    path: str
    start_line: int
    """0-based."""
    end_line: int
    """0-based, inclusive."""
    chars: int
    """Characters of the whole chunk."""
    id: str = ""

    def answers(self, target: Target) -> bool:
        """Return whether the chunk is in the target's file and overlaps its lines, if it has any.

        >>> chunk = Hit("app", "io.py", 10, 20, 400)
        >>> chunk.answers(Target("io.py")), chunk.answers(Target("io.py", "lib"))
        (True, False)
        >>> chunk.answers(Target("io.py", "app", 20, 30)), chunk.answers(Target("io.py", "app", 21, 30))
        (True, False)
        """
        if self.path != target.path or (target.repo and self.repo != target.repo):
            return False
        return target.start_line < 0 or (self.start_line <= target.end_line and target.start_line <= self.end_line)

    def text(self) -> str:
        """Return the place as `Target.text` does."""
        return Target(self.path, self.repo, self.start_line, self.end_line).text()


class CandidateKey(NamedTuple):
    """Identity of a candidate."""

    repo: str
    path: str
    key: str
    """Inside the file."""


_T = TypeVar("_T")


def spread(candidates: Iterable[tuple[CandidateKey, _T]], seed: int) -> Iterator[_T]:
    """Return all candidates, by turns of repositories, and in each by turns of files; the order inside a turn is drawn.

    Nothing but places and seed decides, so that a repository more or less leaves the order of the others as it is.

    >>> big = [CandidateKey("a", "big.py", str(number)) for number in range(8)]
    >>> places = [*big, CandidateKey("a", "small.py", "x"), CandidateKey("b", "c.py", "y")]
    >>> sorted(one.path for one in list(spread(((place, place) for place in places), 0))[:3])
    ['big.py', 'c.py', 'small.py']
    """
    by_repo: dict[str, dict[str, list[tuple[bytes, _T]]]] = defaultdict(lambda: defaultdict(list))
    for place, candidate in candidates:
        by_repo[place.repo][place.path].append((_draw(seed, *place), candidate))
    turns = [_by_file(repo, files, seed) for repo, files in sorted(by_repo.items())]
    return chain.from_iterable(_drop_missing(turn) for turn in zip_longest(*turns, fillvalue=_NOTHING))


_NOTHING = object()


def _drop_missing(turn: Iterable[object]) -> Iterator:
    return (one for one in turn if one is not _NOTHING)


def _by_file(repo: str, files: dict[str, list[tuple[bytes, _T]]], seed: int) -> Iterator[_T]:
    columns = [
        [candidate for _, candidate in sorted(files[path], key=lambda one: one[0])]
        for path in sorted(files, key=lambda path: _draw(seed, repo, path))
    ]
    return chain.from_iterable(_drop_missing(turn) for turn in zip_longest(*columns, fillvalue=_NOTHING))


def _draw(seed: int, *parts: str) -> bytes:
    return hashlib.sha256("\0".join((str(seed), *parts)).encode("utf-8", "surrogatepass")).digest()
