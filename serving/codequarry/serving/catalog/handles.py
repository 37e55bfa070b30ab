"""Handles of chunks: the shortest sure beginning of an id, in letters and digits, as git shortens commits.

An id has 19 digits, about seven tokens of a model; its handle has five or six characters. A handle depends on the id
alone, so it means the same chunk in every version that has it. It is long enough that a chunk which is gone is almost
never taken for another: at least a thousand times as many handles exist as the version has chunks.
"""

from __future__ import annotations

import re

import numpy as np

_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
"""32 characters that are not mistaken for one another."""
_BITS = 63
_STEP = 5
_SPARE = 1_000
_SHORTEST = 4
_LONGEST = -(-_BITS // _STEP)
_HANDLE = re.compile(rf"\[?([{_ALPHABET}]{{{_SHORTEST},{_LONGEST}}})\]?")


def handle_of(chunk_id: int, chunk_ids: np.ndarray) -> str:
    """Return the handle of a chunk.

    Args:
        chunk_id: Id of the chunk.
        chunk_ids: (n,) int64, ids of all chunks of the version, ascending.

    Returns:
        Its handle, which no other chunk of the version has.
    """
    length = _SHORTEST
    while 1 << (_STEP * length) < _SPARE * len(chunk_ids):
        length += 1
    at = int(chunk_ids.searchsorted(chunk_id))
    for other in chunk_ids[max(0, at - 1) : at + 2].tolist():
        if other != chunk_id:
            length = max(length, _letters_in_common(chunk_id, other) + 1)
    return _letters_of(chunk_id)[:length]


def ids_of_handle(text: str, chunk_ids: np.ndarray) -> list[int]:
    """Return the ids that a handle may mean: one, none, or several where it was cut short.

    Args:
        text: What the caller sent; brackets around it are allowed.
        chunk_ids: (n,) int64, ids of all chunks of the version, ascending.

    Returns:
        Ids, ascending; none when the text is no handle.
    """
    match = _HANDLE.fullmatch(text)
    return _beginning_with(match[1], chunk_ids).tolist() if match else []


def _letters_in_common(one: int, other: int) -> int:
    """Return how many letters the handles of two chunks begin with alike; of all chunks a neighbour has most."""
    return (_BITS - (one ^ other).bit_length()) // _STEP


def _letters_of(chunk_id: int) -> str:
    padded = chunk_id << (_STEP * _LONGEST - _BITS)
    return "".join(_ALPHABET[padded >> (_STEP * place) & 31] for place in reversed(range(_LONGEST)))


def _beginning_with(start: str, chunk_ids: np.ndarray) -> np.ndarray:
    """Return the ids whose letters form begins so."""
    first = 0
    for character in start:
        first = first << _STEP | _ALPHABET.index(character)
    free = _STEP * (_LONGEST - len(start))
    shift = _STEP * _LONGEST - _BITS
    low, high = first << free >> shift, ((first + 1) << free) - 1 >> shift
    left, right = np.searchsorted(chunk_ids, np.array([low, high], np.int64)) if high < 1 << 63 else (0, 0)
    right += int(right < len(chunk_ids) and chunk_ids[right] == high)
    return chunk_ids[left:right]
