"""The order of the hybrid search: its parts add up, each rule does what it says, and nothing depends on chance."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.schemas.ranking_profile import BUILT_IN, ClassProfile
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchAnswer, SearchFilters, SearchRequest, to_wire
from codequarry.serving.catalog.chunk_arrays import CHUNK, RowIndex, Strings
from codequarry.serving.catalog.directory import ChunkDirectory
from codequarry.serving.channels.base import Candidates
from codequarry.serving.engine.engine import Engine
from codequarry.serving.files.file_index import FileIndex, FileRow
from codequarry.serving.ranking.chunk_evidence import RankedChunks
from codequarry.serving.ranking.file_evidence import (
    RankedFiles,
    fan_in_factor,
    header_factor,
    path_class_factor,
    size_factor,
)
from codequarry.serving.ranking.ranking import Scored, channel_weights, rank
from codequarry.serving.text.query_classes import analyze_query
from codequarry.serving.version.open import Bundle
from tests.serving.bundles.bundle_factory import Piece, definition_row, write_bundle
from tests.serving.scores import recomputed

PATHS = ("lib/mime.c", "lib/mime.h", "src/session.py", "src/store.py", "tests/test_session.py")
CHUNKS = 4


def ranked_files() -> RankedFiles:
    """Five files of four chunks each, whose ids are 1 to 20 in their order."""
    ids = np.arange(1, len(PATHS) * CHUNKS + 1)
    directory = ChunkDirectory(
        ids, np.repeat(np.arange(len(PATHS)), CHUNKS), ("quarry",) * len(PATHS), PATHS, ("python",) * len(PATHS),
        np.array([1, 1, 1, 1, 4], np.int8), by_row=ids, first_rows=np.arange(len(PATHS)) * CHUNKS,
        chunk_counts=np.full(len(PATHS), CHUNKS),
        torn=np.zeros(len(PATHS), np.bool_),
    )  # fmt: skip
    rows = [FileRow(row, "quarry", path, row, 10 * row) for row, path in enumerate(PATHS)]
    return RankedFiles(FileIndex.build(rows, np.eye(len(PATHS), 8, dtype=np.float32)), directory, BUILT_IN)


def ranked_chunks() -> RankedChunks:
    """The chunks of these files: functions of 10 lines, each fourth is an interface.

    The eighth has one line, the eleventh is nine tenths comment, and ``expireSession`` starts in the fourteenth.
    """
    texts = Strings.of(["", "expireSession", "function", "interface"])
    none = np.empty(0, np.int32)
    chunks = np.zeros(len(PATHS) * CHUNKS, [(name, np.int64) for name in CHUNK])
    chunks["chunk_id"] = np.arange(1, len(chunks) + 1)
    chunks["kind"] = 2
    chunks["kind"][3::4] = 3
    chunks["end_line"] = 9
    chunks["end_line"][7] = 0
    chunks["start_byte"] = np.arange(len(chunks)) % CHUNKS
    chunks["comment_percent"][10] = 90
    symbol_starts = np.arange(len(chunks) + 1) > 13
    rows = RowIndex(
        texts.data, texts.starts, np.arange(len(chunks)), chunks, np.ones(1, np.int32),
        symbol_starts.astype(np.int64), none, none, none, none,
    )  # fmt: skip
    return RankedChunks(rows, BUILT_IN.chunk)


FILES = ranked_files()
FORMS = ranked_chunks()
TOPIC = BUILT_IN.classes["topic"]
scored = st.dictionaries(st.integers(1, 20), st.floats(0.125, 8, width=32), max_size=20)


def candidates(scores: dict[int, float]) -> Candidates:
    order = sorted(scores, key=lambda one: (-scores[one], one))
    return Candidates(np.array(order, np.int64), np.array([scores[one] for one in order], np.float32))


QUERIES = ["session", "Store.open", "how are sessions stored", "Returns the mime type.", "session handling"]
methods = st.sampled_from(["score", "weighted_rrf"])


@given(scored, scored, scored, st.sets(st.integers(1, 20)), methods, st.sampled_from(QUERIES))
@settings(deadline=None)
def test_the_parts_of_every_score_give_it_again(lexical, dense, symbol, phrases, method, text) -> None:
    query = analyze_query(text)
    answers = {"bm25": candidates(lexical), "faiss": candidates(dense)}
    answers["symbol"] = candidates({one: score / 8 for one, score in symbol.items()})
    weights = channel_weights(BUILT_IN.classes[query.kind], dict.fromkeys(answers, 1.0))
    found = rank(
        query, answers, weights, FILES, FORMS, phrases=np.array(sorted(phrases), np.int64), allowed=None,
        method=method, k=60, limit=50,
    )  # fmt: skip
    for one in found:
        assert one.recomputed() == pytest.approx(one.score, rel=1e-12)
        assert 0 < one.score <= 1 + 1e-9
    assert [one.chunk_id for one in found] == [
        one.chunk_id for one in sorted(found, key=lambda one: (-one.score, one.chunk_id))
    ]
    assert {one.chunk_id for one in found} >= {*lexical, *dense} - {0}


@given(
    *[st.dictionaries(st.integers(1, 20), st.sampled_from([0.3, 1.1, 2.0]), max_size=20)] * 4,
    st.sampled_from(QUERIES),
    st.randoms(use_true_random=False),
)
@settings(deadline=None)
def test_the_order_in_which_candidates_come_changes_nothing(lexical, dense, sparse, symbol, text, random) -> None:
    """The order of channels, and of chunks with equal scores."""
    query = analyze_query(text)
    found = {"bm25": lexical, "faiss": dense, "splade": sparse}
    found["symbol"] = {one: score / 2 for one, score in symbol.items()}
    weights = channel_weights(BUILT_IN.classes[query.kind], dict.fromkeys(found, 1.0))

    def ranking(channels: list[str], scores_of: dict[str, list[tuple[int, float]]]) -> list[tuple[int, float]]:
        answers = {
            name: Candidates(
                np.array([one for one, _ in scores_of[name]], np.int64),
                np.array([score for _, score in scores_of[name]], np.float32),
            )
            for name in channels
        }
        ranked = rank(
            query, answers, weights, FILES, FORMS, phrases=np.empty(0, np.int64), allowed=None,
            method="score", k=60, limit=50,
        )  # fmt: skip
        return [(one.chunk_id, one.score) for one in ranked]

    by_id = {name: sorted(scores.items(), key=lambda each: (-each[1], each[0])) for name, scores in found.items()}
    drawn = {name: random.sample(each, len(each)) for name, each in by_id.items()}
    by_chance = {name: sorted(each, key=lambda each: -each[1]) for name, each in drawn.items()}
    assert ranking(random.sample(list(found), len(found)), by_chance) == ranking(list(found), by_id)


SOURCES = [9, 10, 11, 13, 14, 15]
"""Functions of two files of one path class."""
of_sources = st.dictionaries(st.sampled_from(SOURCES), st.floats(0.125, 8, width=32), max_size=6)


@given(of_sources, of_sources, of_sources, st.sets(st.sampled_from(SOURCES), min_size=1, max_size=4))
@settings(deadline=None)
def test_a_literal_comes_before_all_that_do_not_hold_it(lexical, dense, symbol, phrases) -> None:
    answers = {"bm25": candidates(lexical), "faiss": candidates(dense)}
    answers["symbol"] = candidates({one: score / 8 for one, score in symbol.items()})
    query = analyze_query("'no session is stored'")
    weights = channel_weights(BUILT_IN.classes[query.kind], dict.fromkeys(answers, 1.0))
    found = rank(
        query, answers, weights, FILES, FORMS, phrases=np.array(sorted(phrases), np.int64), allowed=None,
        method="score", k=60, limit=50,
    )  # fmt: skip
    assert found[0].chunk_id in phrases
    assert found[0].file["literal"].value == 1
    assert found[0].chunk["literal"].value == 5


def test_a_file_is_found_by_its_name_though_no_channel_found_it() -> None:
    query = analyze_query("how are sessions kept")
    found = rank(
        query, {"bm25": candidates({})}, {"bm25": 1.0}, FILES, FORMS, phrases=np.empty(0, np.int64), allowed=None,
        method="score", k=60, limit=9,
    )  # fmt: skip
    assert [one.chunk_id for one in found] == [9, 17]
    assert found[0].file["name_cover"].value == 1
    assert found[1].factors["path_class:test"] == BUILT_IN.factors.test


def test_nothing_outside_of_a_filter_comes_back_by_its_name() -> None:
    query = analyze_query("how are sessions kept")
    found = rank(
        query, {"bm25": candidates({})}, {"bm25": 1.0}, FILES, FORMS, phrases=np.array([1]), allowed=np.array([17, 18]),
        method="score", k=60, limit=9,
    )  # fmt: skip
    assert [one.chunk_id for one in found] == [17]


def test_further_chunks_of_a_file_come_later_the_more_so_for_questions() -> None:
    answers = {"bm25": candidates({14: 8.7, 15: 8.0, 10: 7.6})}
    orders = {
        text: [
            one.chunk_id
            for one in rank(
                analyze_query(text), answers, {"bm25": 1.0}, FILES, FORMS, phrases=np.empty(0, np.int64), allowed=None,
                method="score", k=60, limit=9,
            )
        ]
        for text in ("how is it done here", "Returns what is done here.")
    }  # fmt: skip
    assert list(orders.values()) == [[14, 10, 15], [14, 15, 10]]


def test_rules_are_factors_with_a_reason() -> None:
    factors = BUILT_IN.factors
    assert path_class_factor("source", factors) == {}
    assert path_class_factor("test", factors) == {"path_class:test": factors.test}
    assert header_factor(True, factors) == {"header_beside": factors.header}
    assert header_factor(False, factors) == {}
    assert fan_in_factor(0, TOPIC) == {"fan_in:0": 1}
    assert fan_in_factor(9, TOPIC)["fan_in:9"] > fan_in_factor(3, TOPIC)["fan_in:3"] > 1
    assert size_factor(900, factors)["code_lines:900"] > 1
    assert FILES.factors_of(1, TOPIC, other=False)["header_beside"] == factors.header  # lib/mime.h, beside lib/mime.c


@pytest.mark.parametrize("kind", BUILT_IN.classes.values(), ids=BUILT_IN.classes)
@given(others=st.lists(st.booleans(), min_size=len(PATHS), max_size=len(PATHS)), for_tests=st.booleans())
def test_the_factors_of_all_files_at_once_are_those_of_each(
    kind: ClassProfile, others: list[bool], for_tests: bool
) -> None:
    products = [
        np.prod(list(FILES.factors_of(at, kind, other=one, for_tests=for_tests).values()))
        for at, one in enumerate(others)
    ]
    assert FILES.factors(kind, np.array(others), for_tests=for_tests) == pytest.approx(products, rel=1e-12)


def first_of(text: str, lexical: dict[int, float]) -> Scored:
    return rank(
        analyze_query(text), {"bm25": candidates(lexical)}, {"bm25": 1.0}, FILES, FORMS, phrases=np.empty(0, np.int64),
        allowed=None, method="score", k=60, limit=1,
    )[0]  # fmt: skip


def test_who_asks_for_a_test_gets_one() -> None:
    lexical = {9: 8.0, 17: 6.0}
    assert first_of("expired sessions are dropped", lexical).chunk_id == 9
    asked = first_of("the test that expired sessions are dropped", lexical)
    assert asked.chunk_id == 17
    assert "path_class:test" not in asked.factors
    assert path_class_factor("docs", BUILT_IN.factors, for_tests=True)["no_test"] == BUILT_IN.factors.no_test


@given(st.integers(0, 30))
def test_the_longer_a_question_is_the_less_its_file_decides(words: int) -> None:
    kind = BUILT_IN.classes["question"]
    one, next_one = kind.for_length(words), kind.for_length(words + 1)
    assert kind.file_share >= one.file_share >= next_one.file_share >= (kind.file_share_long or 0)
    assert kind.repeat <= one.repeat <= next_one.repeat <= (kind.repeat_long or 1)
    names = BUILT_IN.classes["identifier"]
    assert names.for_length(words) == names


def test_how_often_a_file_is_imported_counts_by_the_class_of_the_query() -> None:
    assert any(rule.startswith("fan_in:") for rule in FILES.factors_of(3, TOPIC, other=False))
    assert not any(
        rule.startswith("fan_in:") for rule in FILES.factors_of(3, BUILT_IN.classes["statement"], other=False)
    )


SESSION = Piece("web/session.py", "def remove_expired(now): drop old sessions", "remove_expired", ("remove_expired",))
TEST = Piece("tests/test_session.py", "def test_remove_expired(): assert drop old sessions", "test_remove_expired")
OTHER = Piece("web/pool.py", "def close_pool(): raise IOError('pool is closed')", "close_pool", ("close_pool",))
PIECES = (SESSION, TEST, OTHER)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranking")
    nodes = [definition_row(one, symbol) for one in PIECES for symbol in one.symbols]
    write_bundle(folder, PIECES, rows={"ast_nodes": nodes})
    return folder


def ask(root: Path, query: str, **rest) -> SearchAnswer:
    engine = Engine(Bundle.open_current(root, channels=("bm25", "symbol")), ServingSettings())
    try:
        return engine.search(SearchRequest(query=query, explain=True, **rest))
    finally:
        engine.close()


def first(root: Path, query: str) -> int:
    return int(ask(root, query).results[0].id)


def test_sources_come_before_their_tests(root: Path) -> None:
    assert first(root, "where are old sessions dropped") == SESSION.id


def test_a_definition_gets_its_bm25_score_where_too_many_chunks_hold_its_name(tmp_path: Path) -> None:
    uses = [Piece(f"web/use{n}.py", "transaction transaction transaction", f"use{n}") for n in range(30)]
    text = "class Transaction:\n    def begin(transaction): return transaction"
    wanted = Piece("core/base.py", text, "Transaction", ("Transaction",), kind="class")
    write_bundle(tmp_path, (*uses, wanted), rows={"ast_nodes": [definition_row(wanted, "Transaction")]})
    every = ask(tmp_path, "Transaction", channel="bm25", top_k=50).results
    (own,) = [one.metadata.explain.channels["bm25"] for one in every if one.id == str(wanted.id)]
    engine = Engine(Bundle.open_current(tmp_path, channels=("bm25", "symbol")), ServingSettings(candidates=10))
    best, *others = engine.search(SearchRequest(query="Transaction", top_k=12, explain=True)).results
    engine.close()
    found = best.metadata.explain.channels
    assert best.id == str(wanted.id)
    assert (found["bm25"].score, found["bm25"].rank, own.rank) == (own.score, 11, 31)
    assert found["bm25"].value == pytest.approx(own.score / every[0].metadata.explain.channels["bm25"].score, abs=1e-4)
    assert len(others) == 10


def test_what_is_quoted_is_found_word_for_word(root: Path) -> None:
    answer = ask(root, "'pool is closed'")
    assert int(answer.results[0].id) == OTHER.id
    explain = answer.results[0].metadata.explain
    assert (explain.scoring.query_class, set(explain.scoring.chunk)) == ("literal", {"literal"})
    assert "text:literal" in explain.hit_reason


def test_a_message_is_found_word_for_word_without_quotes(tmp_path: Path) -> None:
    wanted = Piece("core/base.py", "raise Closed('the pool of sessions is closed')", "leave", ("leave",))
    others = [Piece(f"pool/closed{n}.py", "pool closed session pools sessions", f"pool_{n}") for n in range(6)]
    write_bundle(tmp_path, (wanted, *others))
    assert first(tmp_path, "the pool of sessions is closed") == wanted.id
    assert first(tmp_path, "is closed the pool of sessions") != wanted.id


def test_the_wire_reproduces_every_score_in_two_kilobytes(root: Path) -> None:
    for query in ("remove_expired", "where are old sessions dropped", "'pool is closed'", "web/session.py"):
        for channel in ("hybrid", "bm25"):
            for result in to_wire(ask(root, query, channel=channel))["results"]:
                explain = result["metadata"]["explain"]
                assert recomputed(explain) == pytest.approx(result["score"], rel=1e-9)
                assert len(str(explain)) <= 2048


SHOP, TOOLS = (
    Piece("web/pool.py", "def close_pool(): drop idle connections", "close_pool", ("close_pool",), repo=repo)
    for repo in ("shop", "dev-tools")
)


@pytest.fixture(scope="module")
def two_repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    write_bundle(folder, (SHOP, TOOLS))
    return folder


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("where does the shop drop idle connections", SHOP),
        ("where do the dev tools drop idle connections", TOOLS),
        ("dev-tools/web/pool.py", TOOLS),
        ("Shop.close_pool", SHOP),
    ],
)
def test_a_repository_that_the_query_names_comes_first(two_repositories: Path, query: str, expected: Piece) -> None:
    first, second = ask(two_repositories, query).results
    assert int(first.id) == expected.id
    assert first.metadata.explain.scoring.factors.keys() & {"other_repository"} == set()
    assert second.metadata.explain.scoring.factors["other_repository"] == BUILT_IN.factors.other_repository
    assert recomputed(to_wire(second)["metadata"]["explain"]) == pytest.approx(second.score, rel=1e-9)


@pytest.mark.parametrize(
    "query",
    ["where are idle connections dropped", "a shop of dev tools that drops idle connections", "'drop idle shop tools'"],
)
def test_where_none_or_all_are_named_or_the_text_is_quoted_repositories_are_equal(
    two_repositories: Path, query: str
) -> None:
    answer = ask(two_repositories, query)
    assert len({result.score for result in answer.results}) == 1
    assert not any("other_repository" in result.metadata.explain.scoring.factors for result in answer.results)


def test_the_name_of_the_repository_tells_no_file_from_another(tmp_path: Path) -> None:
    named = Piece("src/shop.py", "def main(): run the shop", "main", ("main",), repo="shop")
    asked = Piece("src/pool.py", "def drop(): shop drops idle connections", "drop", ("drop",), repo="shop")
    write_bundle(tmp_path, (named, asked))
    found, other = ask(tmp_path, "where does the shop drop idle connections").results
    assert int(found.id) == asked.id
    assert "name_cover" not in other.metadata.explain.scoring.file
    assert ask(tmp_path, "shop").results[0].metadata.explain.scoring.file["name_cover"].value == 1


ISSUE = """Sessions leak after a timeout

After a request times out its session is never given back to the pool, so that after a few minutes
no further request gets one, and everything that calls `give_back` waits for ever.
"""


def test_an_issue_is_answered_by_sources_unless_other_paths_are_asked_for(tmp_path: Path) -> None:
    source = Piece("src/pool.py", "def give_back(session): the pool has it again", "give_back", ("give_back",))
    test = Piece("tests/test_pool.py", "def test_give_back(): sessions leak after a timeout", "test_give_back")
    write_bundle(tmp_path, (source, test))
    found = ask(tmp_path, ISSUE)
    assert [int(result.id) for result in found.results] == [source.id]
    assert any("read as an issue" in note for note in found.limits)
    assert found.results[0].metadata.explain.scoring.query_class == "issue"
    within = ask(tmp_path, ISSUE, filters=SearchFilters(include=["tests/**"]))
    assert [int(result.id) for result in within.results] == [test.id]
    assert not any("read as an issue" in note for note in within.limits)


def test_an_issue_about_a_repository_without_sources_is_answered_all_the_same(tmp_path: Path) -> None:
    test = Piece("tests/test_pool.py", "def test_give_back(): sessions leak after a timeout", "test_give_back")
    write_bundle(tmp_path, (test,))
    found = ask(tmp_path, ISSUE)
    assert [int(result.id) for result in found.results] == [test.id]
    assert not any("read as an issue" in note for note in found.limits)


def test_an_identifier_that_nothing_defines_is_found_where_it_stands(tmp_path: Path) -> None:
    whole = Piece("setup.cfg", "exclude_also = abstract methods" + " and many other words" * 40)
    parts = Piece("src/exclude/also.py", "def exclude_it(): also exclude, also", "exclude_it", ("exclude_it",))
    write_bundle(tmp_path, (whole, parts))
    assert first(tmp_path, "exclude_also") == whole.id


def test_an_explanation_of_a_long_query_has_two_kilobytes_as_well(tmp_path: Path) -> None:
    terms = [f"größenordnung{number}" for number in range(120)]
    piece = Piece("web/" + "ä" * 200 + ".py", " ".join(terms), "Ö" * 200, ("Ö" * 200,))
    write_bundle(tmp_path, (piece,), rows={"ast_nodes": [definition_row(piece, piece.symbols[0])]})
    (result,) = ask(tmp_path, " ".join([*terms, piece.qualified_name])).results
    told = to_wire(result)["metadata"]["explain"]
    assert len(json.dumps(told, ensure_ascii=False).encode()) <= 2048
    (bm25,) = (reason for reason in told["hit_reason"] if reason.startswith("bm25:terms="))
    assert bm25.startswith("bm25:terms=größenordnung0,")
    assert recomputed(told) == pytest.approx(result.score, rel=1e-9)


def test_filters_hold_in_every_step(root: Path) -> None:
    answer = ask(root, "old sessions", filters=SearchFilters(include=["tests/**"]))
    assert {result.metadata.uri for result in answer.results} == {"quarry/tests/test_session.py"}
