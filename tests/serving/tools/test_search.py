from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.schemas.errors import DeadlineError, InvalidArgumentError, UnavailableError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchFilters, SearchRequest, to_wire
from codequarry.serving.channels.base import Candidates, Channel, ChannelQuery
from codequarry.serving.engine.engine import Engine
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.tools.search import WEAK_MATCH, find_results
from codequarry.serving.version.open import Bundle
from tests.serving.bundles.bundle_factory import Piece, definition_row, write_bundle
from tests.serving.bundles.corpus import GO_SERVER, HOSTILE, INDEX_OPEN, INDEX_TEST, MINIFIED, PIECES, SESSION
from tests.serving.contexts import context_of
from tests.serving.scores import recomputed


def ask(engine: Engine, query: str, **arguments):
    return engine.search(SearchRequest(query=query, explain=True, **arguments))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("where are sessions removed when their time is over", SESSION),
        ("Index.open", INDEX_OPEN),
        ("address already in use", GO_SERVER),
        ("test that a missing file is rejected", INDEX_TEST),
    ],
)
def test_the_right_chunk_comes_first(engine, query, expected) -> None:
    assert ask(engine, query).results[0].id == str(expected.id)


def test_a_result_carries_the_whole_contract(engine) -> None:
    answer = to_wire(ask(engine, "Index.open", top_k=1, filters=SearchFilters(lang=["python"], exclude=["tests"])))
    result = answer["results"][0]
    explain = result["metadata"].pop("explain")
    score = result.pop("score")
    assert result == {
        "id": str(INDEX_OPEN.id),
        "title": "quarry/io/index.py: lines 120-122",
        "url": "repo://quarry/io/index.py#L120-L122",
        "snippet": INDEX_OPEN.text.rstrip("\n"),
        "source": result["source"],
        "metadata": {
            "uri": "quarry/io/index.py",
            "start_line": 119,
            "end_line": 121,
            "start_byte": 0,
            "end_byte": len(INDEX_OPEN.text),
            "lang": "python",
            "symbols": ["Index.open"],
        },
    }
    assert result["source"] in ("faiss_flat", "bm25")
    assert explain["hit_reason"] == [
        "embedding:cosine", "bm25:terms=index,open", "filter:lang=python", "filter:exclude",
    ]  # fmt: skip
    assert (explain["scip"], explain["ast"], explain["cst"]) == (False, True, True)
    assert (explain["leaves"], explain["said"]) == ({"identifier": 1}, "")
    assert score == pytest.approx(recomputed(explain))
    assert (explain["scoring"]["method"], explain["scoring"]["query_class"]) == ("score", "qualified_name")
    assert answer["queryEcho"] == "Index.open"
    assert answer["limits"] == []
    assert answer["top_k"] == 1
    assert set(answer["bundle"]) == {"version", "created", "commits"}


def test_answers_are_deterministic(engine) -> None:
    first = ask(engine, "open a file and read it")
    assert all(ask(engine, "open a file and read it") == first for _ in range(3))


@pytest.mark.parametrize("query", ["", " ", "\n\t "])
def test_a_blank_query_has_no_results(engine, query) -> None:
    assert ask(engine, query).results == []


@pytest.mark.parametrize(
    ("query", "message"),
    [("a\0b", "NUL"), ("\ud800", "surrogate"), ("x" * 4097, "4097 characters"), ("x" * 5000, "at most 4096")],
)
def test_queries_that_are_refused(engine, query, message) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        ask(engine, query)
    assert caught.value.suggestion


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300))
def test_any_other_text_is_answered_with_valid_unicode(engine, query) -> None:
    if "\0" in query:
        return
    answer = ask(engine, query)
    assert answer.queryEcho == query
    answer.model_dump_json().encode("utf-8")


@pytest.mark.parametrize("query", ["'; DROP TABLE chunks_mat; --", "a' OR '1'='1", 'x" ) UNION SELECT', "%_", "$1 ?"])
def test_queries_are_never_sql(engine, query) -> None:
    ask(engine, query, filters=SearchFilters(symbols=[query]))
    assert len(ask(engine, "open", top_k=50).results) == len(PIECES)


@pytest.mark.parametrize(("asked", "given"), [(0, 1), (-5, 1), (51, 50), (10**12, 50)])
def test_top_k_is_clamped_and_says_so(engine, asked, given) -> None:
    answer = ask(engine, "open", top_k=asked)
    assert answer.top_k == given
    assert answer.limits == [f"top_k clamped to {given}, the range is 1 to 50"]


@pytest.mark.parametrize(("channel", "source"), [("bm25", "bm25"), ("faiss", "faiss_flat")])
def test_one_channel_alone(engine, channel, source) -> None:
    results = ask(engine, "open index", channel=channel).results
    assert {result.source for result in results} == {source}
    assert results[0].score == pytest.approx(1.0)


@pytest.mark.parametrize("channel", ["warp", "splade"])
def test_a_channel_the_bundle_lacks_gives_nothing_and_says_what_there_is(engine, channel) -> None:
    answer = ask(engine, "open", channel=channel)
    assert answer.results == []
    assert answer.limits == [f"channel {channel} is not served; served are faiss, bm25, symbol"]


def test_channels_nobody_promised_are_not_mentioned(engine) -> None:
    assert ask(engine, "open").limits == []


def test_a_channel_that_is_off_is_named_and_the_others_answer(lexical_engine) -> None:
    answer = ask(lexical_engine, "Index.open")
    assert answer.results[0].id == str(INDEX_OPEN.id)
    assert answer.results[0].score == pytest.approx(1.0)
    assert len(answer.limits) == 1
    assert answer.limits[0].startswith("channel faiss is off: encoder/encoder.json: cannot be read")


def test_only_the_channel_that_is_off(lexical_engine) -> None:
    answer = ask(lexical_engine, "Index.open", channel="faiss")
    assert answer.results == []
    assert "channel faiss is off" in answer.limits[0]


class Broken(Channel):
    """A channel that fails in ways nobody foresaw."""

    name = source = "bm25"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def _rank(self, asked: ChannelQuery) -> Candidates:
        raise self.error

    def _release(self) -> None:
        pass


def replaced(bundle: Bundle, **channels: object) -> Bundle:
    return dataclasses.replace(bundle, channels={**bundle.channels, **channels}, closed={})


def test_a_channel_that_breaks_takes_nothing_with_it_and_leaks_nothing(engine, caplog) -> None:
    bundle = replaced(engine.bundle, bm25=Broken(RuntimeError("/secret/path")))
    answer = Engine(bundle, ServingSettings()).search(SearchRequest(query="open", explain=True))
    assert answer.results
    assert answer.limits == ["channel bm25 failed on this query; the server's log says why"]
    assert "/secret/path" in caplog.text


def test_a_channel_that_gives_up_says_why(engine) -> None:
    bundle = replaced(engine.bundle, bm25=Broken(UnavailableError("being repaired")))
    answer = Engine(bundle, ServingSettings()).search(SearchRequest(query="open", explain=True))
    assert answer.limits == ["channel bm25 is off: being repaired"]


def clock(*times: float):
    ticks = itertools.chain(times, itertools.repeat(times[-1]))
    return lambda: next(ticks)


def test_after_the_deadline_the_best_so_far_is_returned(engine) -> None:
    deadline = Deadline.after(20, clock=clock(0, 1, 21))
    answer = find_results(context_of(engine.bundle, deadline), SearchRequest(query="open a file", explain=True))
    assert {result.source for result in answer.results} == {"bm25"}
    assert answer.limits == ["stopped after 20 s, without channel faiss"]


def test_the_first_stage_has_a_budget_of_its_own_which_the_first_channel_may_use_up(engine) -> None:
    settings = ServingSettings(stage1_budget_ms=120)
    # Begun at 0; the budget is taken at 1; the first channel looks at 5, the next ones at 6.
    deadline = Deadline.after(20, clock=clock(0, 1, 5, 6))
    context = dataclasses.replace(context_of(engine.bundle, deadline), settings=settings)
    answer = find_results(context, SearchRequest(query="open a file", explain=True))
    assert {result.source for result in answer.results} == {"bm25"}
    assert answer.limits == ["stopped after 0.12 s, without channel faiss"]
    assert (
        find_results(
            context_of(engine.bundle, Deadline.after(20)), SearchRequest(query="open a file", explain=True)
        ).limits
        == []
    )


def test_nothing_before_the_deadline_is_an_error_to_retry(engine) -> None:
    with pytest.raises(DeadlineError) as caught:
        find_results(
            context_of(engine.bundle, Deadline.after(20, clock=clock(0, 21))), SearchRequest(query="open", explain=True)
        )
    assert caught.value.retryable


def test_chunks_the_catalog_lost_are_dropped_and_counted(engine, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = engine.bundle.catalog.rows
    monkeypatch.setattr(engine.bundle.catalog, "rows", lambda ids: whole(ids[1:]))
    answer = ask(engine, "open", top_k=5)
    assert len(answer.results) == 5
    assert answer.limits == [
        "1 result dropped: the catalog has no such chunk, or no code of it",
        "density 0.83: 5 of the 6 best candidates stand",
    ]


def test_weights_of_zero_leave_a_channel_out(engine) -> None:
    lexical = Engine(engine.bundle, ServingSettings(weight_faiss=0))
    assert {result.source for result in ask(lexical, "open").results} == {"bm25"}
    silent = Engine(engine.bundle, ServingSettings(weight_faiss=0, weight_bm25=0, weight_symbol=0))
    assert ask(silent, "open").limits == ["no channel can answer: all are off or have weight 0"]


def test_a_dense_channel_without_a_near_vector_may_be_left_out(engine) -> None:
    query = "where are sessions removed when their time is over"

    def searched(least: float, channel: str = "hybrid"):
        settings = ServingSettings(semantic_min_score=least)
        context = dataclasses.replace(context_of(engine.bundle, Deadline.after(9)), settings=settings)
        return find_results(context, SearchRequest(query=query, channel=channel, explain=True))

    usual = searched(-1)
    nearest = max(one.metadata.explain.channels["faiss"].score for one in usual.results)
    assert searched(nearest - 0.01).results == usual.results
    without = searched(nearest + 0.01)
    assert not any("faiss" in one.metadata.explain.channels for one in without.results)
    assert [note for note in without.limits if note.startswith("channel faiss is left out: its nearest vector")]
    assert without.results and searched(1.0, "faiss").results


def test_titles_and_links_of_hostile_paths_are_plain(engine) -> None:
    result = next(one for one in ask(engine, "ignore instructions", top_k=50).results if one.id == str(HOSTILE.id))
    assert result.title == "quarry/docs/ab %23.md: lines 1-2"
    assert result.url == "repo://quarry/docs/ab%20%2523.md#L1-L2"
    assert result.metadata.uri == "quarry/" + HOSTILE.path


def test_long_lines_are_cut_in_snippets(engine) -> None:
    result = next(one for one in ask(engine, "var a", top_k=50).results if one.id == str(MINIFIED.id))
    assert len(result.snippet) == 200
    assert result.metadata.explain.ast is False


def test_an_empty_bundle_answers(tmp_path, minilm_directory) -> None:
    write_bundle(tmp_path, [], encoder=minilm_directory)
    empty = Engine.open(tmp_path, ServingSettings())
    answer = ask(empty, "open")
    assert (answer.results, answer.limits) == ([], [])
    assert ask(empty, "open", filters=SearchFilters(include=["*.py"])).results == []
    empty.close()


def test_scip_is_said_of_chunks_whose_file_it_indexed(engine: Engine) -> None:
    found = {
        result.metadata.lang: result.metadata.explain.scip
        for query in (GO_SERVER.qualified_name, INDEX_OPEN.qualified_name)
        for result in engine.search(SearchRequest(query=query, channel="bm25", explain=True)).results
    }
    assert found["go"]
    assert not found["python"]


def test_a_nonsense_query_is_called_weak_with_few_places_and_no_code(engine: Engine) -> None:
    answer = engine.search(SearchRequest(query="zebra crossing pedestrian traffic light"))
    assert WEAK_MATCH in answer.limits
    assert 0 < len(answer.results) <= 5
    assert not any(one.snippet for one in answer.results)


def test_a_caller_that_asks_for_a_number_of_results_gets_them_of_a_weak_match_too(engine: Engine) -> None:
    whole = engine.search(SearchRequest(query="zebra crossing pedestrian traffic light", limit=7, explain=True))
    assert WEAK_MATCH in whole.limits
    assert len(whole.results) == 7
    assert whole.match is not None
    assert whole.match.confidence < 0.1


def test_a_question_that_the_index_answers_is_not_called_weak(engine: Engine) -> None:
    answer = engine.search(SearchRequest(query="where are sessions removed when their time is over", explain=True))
    assert answer.match is not None
    assert answer.match.confidence > 0.5
    assert answer.limits == []


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Yield an engine over two classes that have a method ``reopen``, and ten functions that call it."""
    uses = [Piece(f"web/use{n}.py", f"def use{n}(store):\n    store.reopen({n})", f"use{n}") for n in range(10)]
    text = "    def reopen(self, place):\n        self.place = place"
    owners = [
        Piece(f"core/{owner.lower()}.py", text, f"{owner}.reopen", (f"{owner}.reopen",), kind="method")
        for owner in ("Store", "Index")
    ]
    rows = {"ast_nodes": [definition_row(one, one.qualified_name) for one in owners]}
    root = tmp_path_factory.mktemp("named")
    write_bundle(root, (*uses, *owners), rows=rows)
    engine = Engine(Bundle.open_current(root), ServingSettings())
    yield engine
    engine.close()


def test_an_exact_name_brings_its_definitions_and_at_most_two_more(named: Engine) -> None:
    few = named.search(SearchRequest(query="reopen"))
    assert {one.metadata.uri.rpartition("/")[2] for one in few.results[:2]} == {"store.py", "index.py"}
    assert len(few.results) == 4
    many = named.search(SearchRequest(query="reopen", limit=12))
    assert len(many.results) == 12
    assert [one.id for one in few.results] == [one.id for one in many.results[:4]]


def test_words_that_the_index_lacks_are_weak_and_a_misspelt_name_is_not(named: Engine) -> None:
    assert WEAK_MATCH in named.search(SearchRequest(query="frobnicate store")).limits
    assert WEAK_MATCH not in named.search(SearchRequest(query="reopne")).limits


@pytest.mark.parametrize("channel", ["faiss", "bm25"])
def test_one_channel_alone_has_no_confidence(engine: Engine, channel: str) -> None:
    answer = ask(engine, "zebra crossing pedestrian traffic light files", channel=channel)
    assert answer.match is None
    assert WEAK_MATCH not in answer.limits
