"""Through what a score changed: the amounts add up to the difference, and the one that was changed stands out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.pipelines.measure.movers import changes
from tests.serving.scores import recomputed


def by_rank(**ranks: int) -> dict:
    """An explanation of reciprocal rank fusion."""
    return {
        "channels": {
            name: {"rank": rank, "score": 1.0, "value": 61 / (60 + rank), "weight": 1.0} for name, rank in ranks.items()
        },
        "scoring": {
            "chunk": {}, "file": {}, "factors": {}, "form": {}, "form_on_file": 0.0,
            "file_share": 0.0, "best_chunk": 2.0, "best_file": 0.0, "repeat": 1.0,
        },
    }  # fmt: skip


def rank_score(explain: dict) -> float:
    return sum(part["value"] for part in explain["channels"].values()) / 2


def test_the_channel_whose_rank_changed() -> None:
    before, after = by_rank(faiss=10, bm25=1), by_rank(faiss=2, bm25=1)
    found = changes(before, after)
    assert max(found, key=lambda name: abs(found[name])) == "channel faiss"
    assert sum(found.values()) == pytest.approx(rank_score(after) - rank_score(before))
    assert changes(before, before) == {"channel bm25": 0.0, "channel faiss": 0.0}


def test_a_result_that_entered_or_left_owes_it_to_all_of_its_score() -> None:
    after = by_rank(faiss=3, bm25=50)
    found = changes(None, after)
    assert sum(found.values()) == pytest.approx(rank_score(after))
    assert found["channel faiss"] > found["channel bm25"] > 0
    assert changes(after, None) == {name: -amount for name, amount in found.items()}


values = st.floats(0.01, 1)
evidence = st.fixed_dictionaries({"value": values, "weight": values})
scored = st.fixed_dictionaries(
    {
        "channels": st.dictionaries(st.sampled_from(["faiss", "bm25"]), evidence, min_size=1),
        "scoring": st.fixed_dictionaries(
            {
                "chunk": st.dictionaries(st.sampled_from(["name", "literal"]), evidence),
                "file": st.dictionaries(st.sampled_from(["stem", "directory"]), evidence),
                "factors": st.dictionaries(st.sampled_from(["path_class", "barrel"]), values),
                "form": st.dictionaries(st.sampled_from(["lines:4", "comments:80"]), values),
                "form_on_file": st.floats(0, 1),
                "file_share": st.floats(0, 1),
                "best_chunk": st.floats(0.5, 3),
                "best_file": st.floats(0.5, 3),
                "repeat": values,
            }
        ),
    }
)


@settings(deadline=None)
@given(scored, scored)
def test_amounts_add_up_to_the_difference(before: dict, after: dict) -> None:
    assert sum(changes(before, after).values()) == pytest.approx(recomputed(after) - recomputed(before), abs=1e-9)
    assert sum(changes(None, after).values()) == pytest.approx(recomputed(after))
    assert sum(changes(before, None).values()) == pytest.approx(-recomputed(before))


@settings(deadline=None)
@given(scored)
def test_a_factor_that_changed_is_named(explain: dict) -> None:
    halved = {**explain, "scoring": {**explain["scoring"], "repeat": explain["scoring"]["repeat"] / 2}}
    found = changes(explain, halved)
    assert found.pop("factor repeat") == pytest.approx(-recomputed(explain) / 2)
    assert set(found.values()) <= {0.0}


@settings(deadline=None)
@given(scored)
def test_the_form_of_a_chunk_is_named(explain: dict) -> None:
    scoring = explain["scoring"]
    halved = {**explain, "scoring": {**scoring, "form": {**scoring["form"], "first_of_file": 0.5}}}
    found = changes(explain, halved)
    assert found.pop("factor first_of_file") == pytest.approx(recomputed(halved) - recomputed(explain))
    assert set(found.values()) <= {0.0}
