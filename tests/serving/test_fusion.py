from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.serving.channels import Candidates, ranked
from codequarry.serving.fusion import fuse

ids = st.lists(st.integers(1, 30), unique=True, max_size=20)


def candidates(chunk_ids: list[int]) -> Candidates:
    return Candidates(np.array(chunk_ids, np.int64), np.linspace(1, 0, len(chunk_ids), dtype=np.float32))


@given(ids, ids, st.floats(0.01, 10), st.floats(0.01, 10), st.floats(1, 200))
def test_the_parts_reproduce_the_score_and_the_order(left, right, one, two, k) -> None:
    ranking = fuse({"faiss": candidates(left), "bm25": candidates(right)}, {"faiss": one, "bm25": two}, k=k)
    assert ranking.normalizer == pytest.approx(one / (k + 1) + two / (k + 1))
    for row in ranking.results:
        total = sum(part.weight / (k + part.rank) for part in row.parts.values())
        assert row.score == pytest.approx(total / ranking.normalizer)
        assert 0 < row.score <= 1 + 1e-9
        assert row.leader(k) in row.parts
        for name, found in (("faiss", left), ("bm25", right)):
            assert (name in row.parts) == (row.chunk_id in found)
            if name in row.parts:
                assert found[row.parts[name].rank - 1] == row.chunk_id
    keys = [(-row.score, row.chunk_id) for row in ranking.results]
    assert keys == sorted(keys)
    assert {row.chunk_id for row in ranking.results} == {*left, *right}


def test_first_in_every_channel_scores_one() -> None:
    both = {"faiss": candidates([5, 6]), "bm25": candidates([5])}
    assert fuse(both, {"faiss": 1.0, "bm25": 0.8}, k=60).results[0].score == pytest.approx(1.0)


def test_a_channel_that_found_nothing_still_counts_as_asked() -> None:
    answers = {"faiss": candidates([5]), "bm25": candidates([])}
    assert fuse(answers, {"faiss": 1.0, "bm25": 1.0}, k=60).results[0].score == pytest.approx(0.5)


@given(st.lists(st.tuples(st.integers(1, 50), st.sampled_from([0.1, 0.5, 0.9])), unique_by=lambda pair: pair[0]))
def test_candidates_have_one_order(pairs) -> None:
    found = ranked(
        np.array([one for one, _ in pairs], np.int64), np.array([score for _, score in pairs], np.float32), limit=10
    )
    expected = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:10]
    assert found.chunk_ids.tolist() == [one for one, _ in expected]
