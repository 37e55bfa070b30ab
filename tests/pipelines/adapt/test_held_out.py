"""Evaluation of an adapted encoder on held-out files: intervals of differences."""

from __future__ import annotations

import numpy as np
import pytest

from codequarry.pipelines.adapt.held_out import interval


def test_intervals_hold_the_mean_and_pair_what_is_compared() -> None:
    drawn = np.random.default_rng(1)
    ranks = {name: drawn.random(80) for name in "ab"}
    better = {name: values + 0.01 for name, values in ranks.items()}
    low, high = interval(ranks)
    assert low < np.mean([values.mean() for values in ranks.values()]) < high
    assert interval(better, ranks) == pytest.approx((0.01, 0.01))
