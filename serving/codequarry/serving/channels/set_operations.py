"""Set operations for small arrays, where NumPy's general ones cost more than the work itself."""

from __future__ import annotations

import numpy as np


def members(ids: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Tell which ids are in the sorted array: (m,) bool.

    >>> members(np.array([3, 1, 9]), np.array([1, 3])), members(np.array([3]), np.array([]))
    (array([ True,  True, False]), array([False]))
    """
    if not len(allowed):
        return np.zeros(len(ids), np.bool_)
    places = np.searchsorted(allowed, ids)
    places[places == len(allowed)] = 0
    return allowed[places] == ids
