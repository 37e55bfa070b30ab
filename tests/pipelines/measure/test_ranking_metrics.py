"""The figures of one answer: by hand, and by a second implementation that takes no short cut."""

from __future__ import annotations

from math import log, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.pipelines.measure.questions import Hit, Question, Target
from codequarry.pipelines.measure.ranking_metrics import (
    Scores,
    intervals,
    ndcg,
    recall,
    reciprocal_rank,
    score,
    target_ranks,
)
from codequarry.pipelines.measure.results import Run, difference


def hit(path: str, first: int = 0, last: int = 9, chars: int = 400, repo: str = "app") -> Hit:
    return Hit(repo, path, first, last, chars)


def test_figures_by_hand() -> None:
    hits = [hit("a.py"), hit("b.py", 10, 19), hit("b.py", 0, 9), hit("c.py", chars=16_000), hit("d.py")]
    targets = [Target("b.py", "app", 5, 6), Target("c.py"), Target("nowhere.py")]
    assert target_ranks(hits, targets) == [3, 4, None]
    figures = score(hits, targets)
    assert figures.ndcg_10 == pytest.approx((0.5 + 1 / log2(5)) / (1 + 1 / log2(3) + 0.5))
    assert figures.mrr_10 == pytest.approx(1 / 3)
    assert figures.recall_5 == figures.recall_10 == figures.recall_50 == pytest.approx(2 / 3)
    assert figures.recall_4k == pytest.approx(1 / 3)  # 1,200 characters, then 16,000 more that no longer fit
    assert figures.token_gain == pytest.approx((2 ** (-200 / 1000) + 2 ** (-300 / 1000)) / 3)


def test_depths() -> None:
    assert ndcg([10]) == pytest.approx(1 / log2(11))
    assert (ndcg([11]), reciprocal_rank([11]), reciprocal_rank([10])) == (0.0, 0.0, 0.1)
    assert (recall([5], 5), recall([6], 5), recall([50, 51], 50)) == (1.0, 0.0, 0.5)
    # More targets than ranks: ten on top are the ideal.
    assert ndcg([*range(1, 11), None, None]) == pytest.approx(1.0)
    # One chunk that answers two targets is not worth more than everything.
    assert ndcg([1, 1]) == 1.0


def test_an_answer_without_results_is_worth_nothing() -> None:
    assert score([], [Target("a.py")]) == Scores(*[0.0] * 7)


repos, paths = st.sampled_from(["x", "y"]), st.sampled_from(["a", "b", "c", "d"])
places = st.tuples(repos, paths, st.integers(0, 20), st.integers(20, 40), st.integers(1, 9_000)).map(
    lambda fields: Hit(*fields)
)
files = st.tuples(paths, st.just("") | repos).map(lambda fields: Target(*fields))
spans = st.tuples(paths, st.just("") | repos, st.integers(0, 25), st.integers(25, 50)).map(Target._make)
sought = files | spans


@settings(deadline=None)
@given(st.lists(places, max_size=60), st.lists(sought, min_size=1, max_size=14))
def test_against_a_naive_implementation(hits: list[Hit], targets: list[Target]) -> None:
    first: dict[int, int] = {}
    for number, target in enumerate(targets):
        for rank, one in enumerate(hits):
            lines = set(range(one.start_line, one.end_line + 1))
            wanted = set(range(target.start_line, target.end_line + 1)) if target.start_line >= 0 else lines
            same = one.path == target.path and target.repo in ("", one.repo)
            if same and lines & wanted and number not in first:
                first[number] = rank
    gains = [log(2) / log(2 + rank) for rank in first.values() if rank < 10]
    ideal = [log(2) / log(2 + rank) for rank in range(min(10, len(targets)))]
    fits = [number for number, rank in first.items() if sum(one.chars for one in hits[: rank + 1]) <= 16_000]
    tokens = [sum(one.chars for one in hits[:rank]) / 4 for rank in first.values()]
    best = min(first.values(), default=99)
    expected = (
        min(1.0, sum(gains) / sum(ideal)),
        1 / (best + 1) if best < 10 else 0.0,
        *(sum(rank < depth for rank in first.values()) / len(targets) for depth in (5, 10, 50)),
        len(fits) / len(targets),
        sum(0.5 ** (before / 1000) for before in tokens) / len(targets),
    )
    assert tuple(score(hits, targets)) == pytest.approx(expected)


def test_intervals_hold_the_mean_and_shrink_with_more_questions() -> None:
    drawn = np.random.default_rng(1)
    few, many = drawn.random((20, 2)), drawn.random((2_000, 2))
    for values in (few, many):
        low, high = intervals(values)
        assert (low < values.mean(axis=0)).all()
        assert (values.mean(axis=0) < high).all()
    # The standard error of a uniform variable's mean, 1.96 times to both sides.
    low, high = intervals(many)
    assert high - low == pytest.approx(np.full(2, 2 * 1.96 / np.sqrt(12 * 2_000)), rel=0.1)
    assert np.array_equal(intervals(few), intervals(few))
    low, high = intervals(np.full((5, 1), 0.25))
    assert low.tolist() == high.tolist() == [0.25]


def test_a_paired_difference_sees_what_is_small_but_always_there() -> None:
    """Two runs whose questions differ by far more than the runs do."""
    questions = [Question(f"q{number}", "given", "?", (Target("t"),)) for number in range(30)]

    def ranked(rank: int) -> tuple[Hit, ...]:
        return (*[hit("other")] * (rank - 1), hit("t"))

    ranks = [1 + number % 8 for number in range(30)]
    worse = Run("worse", tuple(ranked(rank + 1) for rank in ranks), (1.0,) * 30, {}, frozenset())
    better = Run("better", tuple(map(ranked, ranks)), (1.0,) * 30, {}, frozenset())
    found = {(one["class"], one["metric"]): one for one in difference(questions, better, worse)}
    assert found["all", "ndcg_10"]["low"] > 0
    assert found["all", "ndcg_10"]["difference"] == pytest.approx(
        np.mean([1 / log2(1 + rank) - 1 / log2(2 + rank) for rank in ranks])
    )
    same = difference(questions, better, better)
    assert {(one["low"], one["high"]) for one in same} == {(0.0, 0.0)}
