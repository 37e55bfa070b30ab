"""Names that differ by one slip of the keys: a letter too many, too few, another one, or two that changed places.

Two names are that near exactly when they, or what is left of them without one letter, meet: the deletion neighbourhood
(Bocek, Hunt and Stiller, 2007). The index keeps a hash of each such form; what meets by hash is compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from zlib import crc32

import numpy as np

FORM = np.dtype([("hash", np.uint32), ("name", np.int32)])
_NAME = re.compile(r"\w{5,64}")
"""Shorter ones have neighbours that mean something else."""


def near_forms(names: Mapping[str, int]) -> np.ndarray:
    """(m,) of `FORM`, sorted: every form of names, in lower case, by their numbers."""
    forms = [(hashed, number) for name, number in names.items() for hashed in set(_hashes(name))]
    return np.sort(np.array(forms, FORM), order=["hash", "name"])


def near_numbers(name: str, forms: np.ndarray) -> list[int]:
    """Numbers of the names that one of the forms of this one may lead to, ascending."""
    hashes = np.array(sorted(set(_hashes(name))), np.uint32)
    column = forms["hash"]
    starts, ends = (np.searchsorted(column, hashes, side) for side in ("left", "right"))
    found: Iterable[np.ndarray] = (forms["name"][start:end] for start, end in zip(starts, ends, strict=True))
    return sorted({number for each in found for number in each.tolist()})


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


def _hashes(name: str) -> Iterator[int]:
    """Of a name and of what is left of it without each of its letters; of nothing where it is too short or long."""
    if _NAME.fullmatch(name):
        yield crc32(name.encode())
        for at in range(len(name)):
            yield crc32((name[:at] + name[at + 1 :]).encode())
