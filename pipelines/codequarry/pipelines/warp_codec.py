"""The residual codec: uniform levels whose range is found by search, for each dimension.

Quantile buckets, as published for PLAID and WARP, put most levels where most residuals are, and the few large ones,
which decide which token is the best, far off; and their uneven levels rule integer arithmetic out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_RANGES = np.arange(0.8, 4.05, 0.1)
"""Half ranges tried, in standard deviations of a dimension."""


def fit_levels(residuals: NDArray[np.int16], bits: int) -> NDArray[np.float32]:
    """Lowest level and step of each dimension, (2, d) float32, with the least squared error over a sample.

    residuals: (m, d) int16, code minus centre. bits: 2^bits levels.
    """
    values = residuals.astype(np.float32)
    dim = values.shape[1]
    if not len(values):
        return np.stack([np.zeros(dim, np.float32), np.ones(dim, np.float32)])
    middle, spread = values.mean(axis=0, dtype=np.float64), values.std(axis=0, dtype=np.float64)
    top = (1 << bits) - 1
    best = np.full(dim, np.inf)
    levels = np.stack([middle, np.ones(dim)])
    for half_range in _RANGES:
        step = np.where(spread > 0, 2 * half_range * spread / top, 1.0)
        low = np.where(spread > 0, middle - half_range * spread, middle)
        error = _error(values, low, step, top)
        better = error < best
        best = np.where(better, error, best)
        levels = np.where(better, np.stack([low, step]), levels)
    return levels.astype(np.float32)


def levels_of(residuals: NDArray[np.int16], levels: NDArray[np.float32], bits: int) -> NDArray[np.uint8]:
    """The nearest level of each residual, (m, d) uint8 in [0, 2^bits)."""
    nearest = np.rint((residuals - levels[0]) / levels[1])
    return np.clip(nearest, 0, (1 << bits) - 1).astype(np.uint8)


def _error(values: NDArray[np.float32], low: np.ndarray, step: np.ndarray, top: int) -> np.ndarray:
    low, step = low.astype(np.float32), step.astype(np.float32)
    shown = low + step * np.clip(np.rint((values - low) / step), 0, top)
    return np.square(values - shown).mean(axis=0, dtype=np.float64)
