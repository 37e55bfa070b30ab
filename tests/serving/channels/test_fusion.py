from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.serving.channels.base import Candidates, ranked
from codequarry.serving.channels.fusion import pool

ids = st.lists(st.integers(1, 30), unique=True, max_size=20)


def candidates(chunk_ids: list[int]) -> Candidates:
    return Candidates(np.array(chunk_ids, np.int64), np.linspace(1, 0.5, len(chunk_ids), dtype=np.float32))


@given(ids, ids, ids, st.sampled_from(["score", "weighted_rrf"]), st.floats(1, 200))
def test_every_candidate_keeps_what_its_channels_said(left, right, extra, method, k) -> None:
    answers = {"faiss": candidates(left), "bm25": candidates(right)}
    found = pool(answers, method=method, k=k, extra=np.array(extra, np.int64))
    assert found.chunk_ids.tolist() == sorted({*left, *right, *extra})
    for name, given_ids in (("faiss", left), ("bm25", right)):
        for row, chunk_id in enumerate(found.chunk_ids.tolist()):
            rank, value = found.ranks[name][row], found.values[name][row]
            if chunk_id not in given_ids:
                assert (rank, value, found.scores[name][row]) == (0, 0, 0)
                continue
            assert given_ids[rank - 1] == chunk_id
            assert 0 <= value <= 1
            assert found.scores[name][row] == answers[name].scores[rank - 1]
            if method == "weighted_rrf":
                assert value == pytest.approx((k + 1) / (k + rank))
        if given_ids:
            assert found.values[name].max() == pytest.approx(1)


def test_values_by_score_keep_the_distances_between_scores() -> None:
    lexical = Candidates(np.array([1, 2, 3]), np.array([8, 6, 2], np.float32))
    assert pool({"bm25": lexical}, method="score", k=60).values["bm25"].tolist() == [1, 0.75, 0.25]
    dense = Candidates(np.array([1, 2, 3]), np.array([0.9, 0.6, 0.3], np.float32))
    assert pool({"faiss": dense}, method="score", k=60).values["faiss"] == pytest.approx([1, 0.5, 0.001])


def test_one_candidate_or_equal_scores_are_the_best() -> None:
    for scores in ([0.4], [0.4, 0.4]):
        found = Candidates(np.arange(len(scores)), np.array(scores, np.float32))
        assert pool({"faiss": found}, method="score", k=60).values["faiss"].tolist() == [1] * len(scores)


@given(st.lists(st.tuples(st.integers(1, 50), st.sampled_from([0.1, 0.5, 0.9])), unique_by=lambda pair: pair[0]))
def test_candidates_have_one_order(pairs) -> None:
    found = ranked(
        np.array([one for one, _ in pairs], np.int64), np.array([score for _, score in pairs], np.float32), limit=10
    )
    expected = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:10]
    assert found.chunk_ids.tolist() == [one for one, _ in expected]
