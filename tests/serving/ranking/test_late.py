"""Late interaction in hybrid: asked where there is doubt, and every score is explained."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.schemas.errors import DeadlineError, UnavailableError
from codequarry.schemas.ranking_profile import BUILT_IN, read_profile
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.settings.service import StageSettings
from codequarry.schemas.wire.search import SearchAnswer, SearchRequest, to_wire
from codequarry.serving.channels.base import Candidates, Channel, ChannelQuery
from codequarry.serving.ranking.late import decide, entropy, rescore_first
from codequarry.serving.ranking.ranking import Scored, channel_weights, rank
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.request.trace import Trace, tracing
from codequarry.serving.text.query_classes import analyze_query
from codequarry.serving.tools.search import find_results
from codequarry.serving.version.open import Bundle
from tests.serving.bundles.bundle_factory import Piece, write_bundle
from tests.serving.contexts import context_of
from tests.serving.ranking.test_ranking import FILES, FORMS, QUERIES, candidates, methods, scored
from tests.serving.scores import recomputed

LATE = StageSettings()
CLEAR = (1.0, 0.8, 0.3, 0.2, 0.1)


def order_of(*scores: float) -> list[Scored]:
    return [Scored(at, score, {}, {}, {}, {}, {}, 1.0, 0.5, 1.0, 1.0, 1.0) for at, score in enumerate(scores, start=1)]


def later() -> Deadline:
    return Deadline.after(9)


def found_at(similarity: float) -> dict[str, Candidates]:
    return {"faiss": candidates({1: similarity}), "bm25": candidates({1: 3.0})}


@pytest.mark.parametrize(
    ("scores", "answers", "said"),
    [
        (CLEAR, found_at(0.6), "skipped: margin 0.20"),
        ((0.9, 0.87, 0.2), found_at(0.6), "ran: margin 0.03"),
        ((0.9, 0.9 - LATE.late_margin - 0.001, 0.2), found_at(0.6), "skipped: margin 0.08"),
        (CLEAR, found_at(LATE.late_similarity - 0.1), "ran: similarity 0.20"),
        (CLEAR, found_at(0.1) | {"faiss2": candidates({2: 0.7})}, "skipped: margin 0.20"),
        (CLEAR, {"faiss": candidates({1: 0.6}), "bm25": candidates({})}, "ran: no word was found"),
        (CLEAR, {"bm25": candidates({1: 3.0})}, "skipped: margin 0.20"),
        ((1.0, *[0.9] * 9), found_at(0.6), "ran: entropy 1.00"),
        ((0.7,), found_at(0.6), "skipped: margin 0.70"),
        ((), {}, "skipped: nothing to look at"),
    ],
)
def test_doubt_is_a_small_margin_or_nothing_near_or_scores_alike(scores, answers, said) -> None:
    decision = decide(order_of(*scores), answers, later(), LATE)
    assert (str(decision), decision.runs) == (said, said.startswith("ran"))
    assert not any(letter.isdigit() for letter in decision.verdict)


def test_without_time_it_is_skipped_and_so_it_is_when_nobody_waits() -> None:
    close = order_of(0.9, 0.89)
    for deadline in (Deadline.after(0), Deadline.after(9, abandoned=lambda: True)):
        assert str(decide(close, found_at(0.6), deadline, LATE)) == "skipped: no time left"


@given(st.lists(st.floats(0, 1), min_size=2, max_size=10))
def test_entropy_is_largest_where_all_are_alike(scores) -> None:
    assert -1e-9 <= entropy(scores) <= 1 + 1e-9
    assert entropy([0.25] * len(scores)) == pytest.approx(1)
    assert LATE.late_entropy < 1


class Tokens(Channel):
    """A channel that scores given chunks as it is told; others it does not hold."""

    name = "warp"
    source = "warp_standard"

    def __init__(self, scores: dict[int, float], error: Exception | None = None) -> None:
        self.scores = scores
        self.error = error
        self.asked: list[list[int]] = []

    def _rank(self, asked: ChannelQuery) -> Candidates:
        return candidates(self.scores)

    def rescore(self, asked: ChannelQuery, chunk_ids: np.ndarray) -> np.ndarray:
        self.asked.append(chunk_ids.tolist())
        if self.error is not None:
            raise self.error
        return np.array([self.scores.get(one, math.nan) for one in chunk_ids.tolist()], np.float32)

    def _release(self) -> None:
        pass


def test_the_first_ones_are_scored_again_as_far_as_the_index_holds_them() -> None:
    channel = Tokens({one: one % 7 for one in range(2, 900)})
    found = rescore_first(channel, ChannelQuery(analyze_query("q"), 9), order_of(*np.linspace(1, 0.5, 300)), 50)
    assert channel.asked == [list(range(1, 50 + 1))]
    assert len(found.chunk_ids) == 50 - 1
    assert found.chunk_ids.tolist() == sorted(range(2, 50 + 1), key=lambda one: (-(one % 7), one))


@given(scored, scored, scored, methods, st.sampled_from(QUERIES))
@settings(deadline=None)
def test_with_it_the_parts_of_every_score_give_it_again(lexical, dense, tokens, method, text) -> None:
    query = analyze_query(text)
    answers = {"bm25": candidates(lexical), "faiss": candidates(dense), "warp": candidates(tokens)}
    weights = channel_weights(BUILT_IN.classes[query.kind], dict.fromkeys(answers, 1.0))
    found = rank(
        query, answers, weights, FILES, FORMS, phrases=np.empty(0, np.int64), allowed=None, method=method, k=60,
        limit=50,
    )  # fmt: skip
    for one in found:
        assert one.recomputed() == pytest.approx(one.score, rel=1e-12)
        assert ("warp" in one.channels) == (one.chunk_id in tokens)


def test_profiles_from_before_leave_it_out_and_names_need_it_not() -> None:
    raw = BUILT_IN.model_dump()
    for each in raw["classes"].values():
        del each["late"]
    old = read_profile(BUILT_IN.model_validate(raw).model_dump_json(exclude_defaults=True).encode())
    assert {kind.late for kind in old.classes.values()} == {0.0}
    weights = {
        name: channel_weights(kind, {"bm25": 1.0, "warp": 0.5})["warp"] for name, kind in BUILT_IN.classes.items()
    }
    assert {name for name, weight in weights.items() if not weight} == {"identifier", "qualified_name", "path"}
    assert set(weights.values()) == {0.0, 0.2}


ALIKE = tuple(
    Piece(f"web/part{at}.py", f"def sort_{at}(rows): rows of the table {at}", f"sort_{at}") for at in range(3)
)
APART = Piece("web/session.py", "def remove_expired(now): drop old sessions", "remove_expired", ("remove_expired",))
IDS = [one.id for one in ALIKE]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("late")
    write_bundle(folder, (*ALIKE, APART))
    return folder


@pytest.fixture
def bundle(root: Path) -> Iterator[Bundle]:
    opened = Bundle.open_current(root, channels=("bm25", "symbol"))
    yield opened
    opened.close()


def ask(
    bundle: Bundle, query: str, *, weights: dict[str, float] | None = None, late: StageSettings = LATE, **rest
) -> tuple[SearchAnswer, Trace]:
    with tracing(Trace("1", "search")) as trace:
        request = SearchRequest(query=query, explain=True, **rest)
        context = replace(context_of(bundle, later()), settings=ServingSettings(**late.model_dump()))
        return find_results(context, request, weights=weights), trace


def late_of(answer: SearchAnswer) -> set[str]:
    return {result.metadata.explain.scoring.late for result in answer.results}


CLOSE = "rows of the table"


def test_it_decides_among_what_is_alike(bundle: Bundle) -> None:
    before, trace = ask(bundle, CLOSE)
    assert (late_of(before), trace.gates) == ({""}, [])
    for best in IDS:
        channel = Tokens({one: 9.0 if one == best else 4.0 for one in (*IDS, APART.id)})
        bundle.channels["warp"] = channel
        answer, trace = ask(bundle, CLOSE)
        first = answer.results[0]
        assert int(first.id) == best
        assert late_of(answer) == {"ran: margin 0.00"}
        assert "late_interaction:maxsim" in first.metadata.explain.hit_reason
        assert trace.gates == [("warp", "ran: margin")]
        assert trace.pools["warp"][0][0] == best
        assert {"warp", "fusion"} <= trace.stages.keys()
        assert len(channel.asked) == 1
        for result in to_wire(answer)["results"]:
            explain = result["metadata"]["explain"]
            assert recomputed(explain) == pytest.approx(result["score"], rel=1e-9)
            assert explain["channels"]["warp"]["weight"] == 0.4


def test_what_is_clear_is_left_alone(bundle: Bundle) -> None:
    without, _ = ask(bundle, "where are old sessions dropped")
    bundle.channels["warp"] = channel = Tokens(dict.fromkeys(IDS, 9.0))
    answer, trace = ask(bundle, "where are old sessions dropped")
    assert [(one.id, one.score) for one in answer.results] == [(one.id, one.score) for one in without.results]
    assert late_of(answer).pop().startswith("skipped: margin ")
    assert (channel.asked, trace.gates) == ([], [("warp", "skipped: margin")])


def test_chunks_that_were_not_scored_again_keep_their_order(bundle: Bundle) -> None:
    without, _ = ask(bundle, CLOSE)
    order = [int(one.id) for one in without.results]
    bundle.channels["warp"] = Tokens({order[-1]: 5.0})
    with_it, _ = ask(bundle, CLOSE)
    assert [int(one.id) for one in with_it.results if int(one.id) != order[-1]] == order[:-1]


@pytest.mark.parametrize(
    ("error", "late", "limits"),
    [
        (UnavailableError("no encoder"), "skipped: the channel is off", ["channel warp is off: no encoder"]),
        (DeadlineError("late"), "skipped: no time left", ["stopped after 9 s, without channel warp"]),
        (
            ValueError("broken"),
            "skipped: the channel is off",
            ["channel warp failed on this query; the server's log says why"],
        ),
    ],
)
def test_where_it_fails_the_first_ranking_stands(bundle: Bundle, error, late, limits) -> None:
    without, _ = ask(bundle, CLOSE)
    bundle.channels["warp"] = Tokens({}, error)
    answer, trace = ask(bundle, CLOSE)
    assert [(one.id, one.score) for one in answer.results] == [(one.id, one.score) for one in without.results]
    assert (late_of(answer), answer.limits, trace.gates) == ({late}, limits, [("warp", late)])
    assert trace.degraded == ["warp"]


def test_weights_leave_it_out_or_leave_nothing_else(bundle: Bundle) -> None:
    bundle.channels["warp"] = channel = Tokens(dict(zip(IDS, (3.0, 9.0, 5.0), strict=True)))
    answer, _ = ask(bundle, CLOSE, weights={"warp": 0.0})
    assert (late_of(answer), channel.asked) == ({"skipped: it has no weight"}, [])
    answer, _ = ask(bundle, "sort_1")
    assert late_of(answer) == {"skipped: it has no weight"}
    answer, _ = ask(bundle, CLOSE, weights={"bm25": 0.0, "symbol": 0.0})
    assert int(answer.results[0].id) == IDS[1]
    assert late_of(answer) == {"ran: no other channel was asked"}
    bundle.shut("warp", "its files are damaged")
    answer, _ = ask(bundle, CLOSE)
    assert late_of(answer) == {"skipped: the channel is off"}
    assert answer.limits == ["channel warp is off: its files are damaged"]


def test_asked_by_name_it_searches_everything(bundle: Bundle) -> None:
    bundle.channels["warp"] = channel = Tokens(dict(zip(IDS, (3.0, 9.0, 5.0), strict=True)))
    answer, trace = ask(bundle, CLOSE, channel="warp")
    assert [int(one.id) for one in answer.results] == [IDS[1], IDS[2], IDS[0]]
    assert (late_of(answer), channel.asked, trace.gates) == ({""}, [], [])


def test_it_has_a_budget_of_its_own(bundle: Bundle) -> None:
    class Slow(Tokens):
        def rescore(self, asked: ChannelQuery, chunk_ids: np.ndarray) -> np.ndarray:
            assert asked.deadline.seconds == pytest.approx(0.18)
            raise DeadlineError("late")

    bundle.channels["warp"] = Slow(dict.fromkeys(IDS, 9.0))
    answer, _ = ask(bundle, CLOSE, late=StageSettings(stage2_budget_ms=180))
    assert late_of(answer) == {"skipped: no time left"}
    assert answer.limits == ["stopped after 0.18 s, without channel warp"]


CLEARLY = "where are old sessions dropped"


def test_it_may_be_used_for_every_query_on_as_many_results_as_are_wanted(bundle: Bundle) -> None:
    bundle.channels["warp"] = channel = Tokens(dict.fromkeys((*IDS, APART.id), 9.0))
    answer, trace = ask(bundle, CLEARLY, late=StageSettings(late_mode="rescore", late_rescored=1))
    assert (late_of(answer), trace.gates) == ({"ran: every query"}, [("warp", "ran: every query")])
    assert channel.asked == [[APART.id]]


def test_it_may_find_results_of_its_own(bundle: Bundle) -> None:
    bundle.channels["warp"] = channel = Tokens(dict.fromkeys(IDS, 9.0))
    without, _ = ask(bundle, CLEARLY)
    answer, trace = ask(bundle, CLEARLY, late=StageSettings(late_mode="wide"))
    assert {int(one.id) for one in answer.results} - {int(one.id) for one in without.results} == set(IDS)
    assert (late_of(answer), channel.asked) == ({"ran: every query"}, [])
    assert set(trace.pools["warp"][0].tolist()) == set(IDS)


def test_it_may_be_left_out(bundle: Bundle) -> None:
    without, _ = ask(bundle, CLOSE)
    bundle.channels["warp"] = channel = Tokens(dict.fromkeys(IDS, 9.0))
    answer, _ = ask(bundle, CLOSE, late=StageSettings(late_mode="off"))
    assert [(one.id, one.score) for one in answer.results] == [(one.id, one.score) for one in without.results]
    assert channel.asked == []
    alone, _ = ask(bundle, CLOSE, late=StageSettings(late_mode="off"), channel="warp")
    assert len(alone.results) == len(IDS)


@pytest.mark.parametrize(
    ("late", "said"),
    [
        (StageSettings(late_margin=0.3), "ran: margin 0.20"),
        (StageSettings(late_margin=0, late_similarity=0.7), "ran: similarity 0.60"),
        (StageSettings(late_margin=0, late_entropy=0.5), "ran: entropy 0.83"),
        (StageSettings(late_margin=0, late_similarity=-1, late_entropy=1), "skipped: margin 0.20"),
    ],
)
def test_every_limit_of_doubt_is_a_setting(late: StageSettings, said: str) -> None:
    assert str(decide(order_of(*CLEAR), found_at(0.6), later(), late)) == said
