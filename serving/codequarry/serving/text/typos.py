"""Names that differ by one typo: an extra, missing or wrong letter, or two letters swapped.

A typo touches at most two neighbouring letters. So two names that differ by one agree in the first half of the
requested name, or in everything after the letter behind it. Names sorted forwards lead to the first kind, names sorted
by their last letters to the second; the candidates of both are compared.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_NAME = re.compile(r"\w{5,64}")
"""Shorter names have neighbours with another meaning."""
_BEYOND = "\U0010ffff"
_LETTER_BYTES = 4
"""Bytes of UTF-8 by which names one typo apart may differ in length."""


class _Mirrored(Sequence[str]):
    """Names spelled backwards, sorted."""

    def __init__(self, strings: Sequence[str], backwards: np.ndarray) -> None:
        self._strings, self._backwards = strings, backwards

    def __len__(self) -> int:
        return len(self._backwards)

    def __getitem__(self, at: Any) -> Any:
        return self._strings[int(self._backwards[at])][::-1]


def by_last_letters(names: Mapping[str, int]) -> np.ndarray:
    """Sort the names that a misspelt one may mean by their letters from the last on.

    Args:
        names: Numbers by name in lower case.

    Returns:
        (f,) int32: numbers of the names.
    """
    found = sorted((name[::-1], number) for name, number in names.items() if _NAME.fullmatch(name))
    return np.array([number for _, number in found], np.int32)


def near_numbers(
    name: str, strings: Sequence[str], starts: np.ndarray, keys: np.ndarray, backwards: np.ndarray
) -> list[int]:
    """Return numbers of the names that are one typo away from this one.

    Args:
        name: Name in lower case.
        strings: Sorted strings that the numbers name.
        starts: (s + 1,): positions of their bytes in UTF-8.
        keys: (d,): numbers of the names, ascending.
        backwards: Result of `by_last_letters`.

    Returns:
        Numbers, ascending.
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
    """Tell whether two different names are one typo apart (optimal string alignment distance 1).

    >>> [is_near("header", other) for other in ("haeder", "heder", "headers", "reader", "heda", "header")]
    [True, True, True, True, False, False]
    """
    shorter = min(len(one), len(other))
    start = next((at for at in range(shorter) if one[at] != other[at]), shorter)
    left = shorter - start
    end = next((at for at in range(left) if one[-1 - at] != other[-1 - at]), left)
    changed, into = one[start : len(one) - end], other[start : len(other) - end]
    return max(len(changed), len(into)) == 1 or (len(changed) == 2 and changed == into[::-1])
