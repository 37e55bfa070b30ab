"""Even drawing: over repositories first, then over their files, and always the same under one seed."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest
from typing import NamedTuple, TypeVar


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
