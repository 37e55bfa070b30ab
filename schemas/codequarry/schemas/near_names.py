"""Names that differ by one slip of the keys: a letter too many, too few, another one, or two that changed places.

A slip touches at most two neighbouring letters, so that two names that near agree in the first half of the one asked
for, or in all that follows the letter behind it. Names sorted forwards lead to the first, names sorted by their last
letters to the second; what either leads to is compared.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_NAME = re.compile(r"\w{5,64}")
"""Shorter ones have neighbours that mean something else."""
_BEYOND = "\U0010ffff"
_LETTER_BYTES = 4
"""Bytes of UTF-8 by which names one slip apart may differ in length."""


class _Mirrored(Sequence[str]):
    """Names from their last letter to the first, sorted."""

    def __init__(self, strings: Sequence[str], backwards: np.ndarray) -> None:
        self._strings, self._backwards = strings, backwards

    def __len__(self) -> int:
        return len(self._backwards)

    def __getitem__(self, at: Any) -> Any:
        return self._strings[int(self._backwards[at])][::-1]


def by_last_letters(names: Mapping[str, int]) -> np.ndarray:
    """(f,) int32: numbers of the names that a misspelt one may mean, sorted by their letters from the last on.

    names: in lower case.
    """
    found = sorted((name[::-1], number) for name, number in names.items() if _NAME.fullmatch(name))
    return np.array([number for _, number in found], np.int32)


def near_numbers(
    name: str, strings: Sequence[str], starts: np.ndarray, keys: np.ndarray, backwards: np.ndarray
) -> list[int]:
    """Numbers of the names that are one slip away from this one, in lower case, ascending.

    strings: what the numbers name, sorted. starts: (s + 1,) of their bytes in UTF-8. keys: (d,) numbers of the names,
    ascending. backwards: of `by_last_letters`.
    """
    if not _NAME.fullmatch(name):
        return []
    half = len(name) // 2
    first, last = name[:half], name[:half:-1]
    ahead = np.searchsorted(keys, [bisect_left(strings, end) for end in (first, first + _BEYOND)])
    mirrored = _Mirrored(strings, backwards)
    behind = bisect_left(mirrored, last), bisect_left(mirrored, last + _BEYOND)
    found = np.unique(np.concatenate([keys[slice(*ahead)], backwards[slice(*behind)]]))
    lengths = starts[found + 1] - starts[found]
    found = found[np.abs(lengths - len(name.encode())) <= _LETTER_BYTES]
    numbers: list[int] = found.tolist()
    return [at for at in numbers if is_near(name, strings[at]) and _NAME.fullmatch(strings[at])]


def is_near(one: str, other: str) -> bool:
    """Whether two different names are one slip apart (optimal string alignment distance 1).

    >>> [is_near("header", other) for other in ("haeder", "heder", "headers", "reader", "heda", "header")]
    [True, True, True, True, False, False]
    """
    shorter = min(len(one), len(other))
    start = next((at for at in range(shorter) if one[at] != other[at]), shorter)
    left = shorter - start
    end = next((at for at in range(left) if one[-1 - at] != other[-1 - at]), left)
    changed, into = one[start : len(one) - end], other[start : len(other) - end]
    return max(len(changed), len(into)) == 1 or (len(changed) == 2 and changed == into[::-1])
