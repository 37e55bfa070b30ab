"""Percentile bootstrap (Efron, 1979): confidence intervals of means over questions."""

from __future__ import annotations

import numpy as np

RESAMPLES = 2_000
LEVEL = 0.95


def intervals(values: np.ndarray, *, level: float = LEVEL, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of the interval of each column's mean: two (m,) float64.

    The same rows are drawn for all columns. For a paired comparison the rows are differences between two answers to the
    same question.

    Args:
        values: (n, m) float64, a row for each question, n ≥ 1.
        level: Confidence level of the interval.
        seed: Seed of the drawing.

    Returns:
        Lower and upper bounds.
    """
    drawn = np.random.default_rng(seed)
    n = len(values)
    # How often each row is drawn, not which rows: a (resamples, n) product instead of a gather of n · m · resamples.
    counts = drawn.multinomial(n, np.full(n, 1 / n), size=RESAMPLES)
    tail = (1 - level) / 2
    low, high = np.quantile(counts @ values / n, [tail, 1 - tail], axis=0)
    return low, high
