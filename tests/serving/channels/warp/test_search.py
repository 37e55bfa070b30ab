"""The kernels of late interaction against the definitions, spelled out naively."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codequarry.schemas.errors import DeadlineError, InvalidArgumentError, UnavailableError
from codequarry.serving.channels.warp import kernels as warp_kernels
from codequarry.serving.channels.warp import search as warp_search
from codequarry.serving.channels.warp.index import WarpIndex
from codequarry.serving.channels.warp.kernels import LANES
from codequarry.serving.channels.warp.query import QUERY_MAX, prepare
from codequarry.serving.channels.warp.search import Searcher
from codequarry.serving.request.deadline import Deadline
from tests.serving.bundles.warp_corpus import (
    DIM,
    SCALES,
    Documents,
    built,
    codes_of,
    naive_maxsim,
    naive_warp,
    random_documents,
    random_query,
)

KINDS = [("standard", 4), ("standard", 2), ("compact", 4), ("compact", 2)]


@pytest.fixture(scope="module")
def documents() -> Documents:
    return random_documents(1, 150)


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: f"{kind[0]}-{kind[1]}")
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, documents: Documents) -> WarpIndex:
    profile, bits = request.param
    return built(tmp_path_factory.mktemp("warp"), documents, profile=profile, bits=bits)


@pytest.fixture(scope="module")
def standard(tmp_path_factory: pytest.TempPathFactory, documents: Documents) -> WarpIndex:
    return built(tmp_path_factory.mktemp("standard"), documents)


def all_of(index: WarpIndex) -> np.ndarray:
    return np.arange(index.spec.documents)


@pytest.mark.parametrize("tokens", [1, 2, 15, 16, 17, 32])
def test_rescore_is_maxsim_by_definition(standard: WarpIndex, documents: Documents, tokens: int) -> None:
    searcher = Searcher(standard, warp_kernels)
    query = searcher.prepare(random_query(tokens, tokens))
    chosen = np.array([149, 0, 7, 7, 80])
    expected = [naive_maxsim(documents[one][1], query) for one in chosen.tolist()]
    assert searcher.rescore(query, chosen).tolist() == expected


@pytest.mark.parametrize("tokens", [1, 16, 19, 32])
def test_kernels_and_numpy_give_the_same_bits(index: WarpIndex, tokens: int) -> None:
    compiled, plain = Searcher(index, warp_kernels), Searcher(index, None)
    query = compiled.prepare(random_query(100 + tokens, tokens))
    assert compiled.rescore(query, all_of(index)).tobytes() == plain.rescore(query, all_of(index)).tobytes()
    best = np.stack([plain.similarities(query, one).max(axis=0) for one in range(index.spec.documents)])
    assert best.sum(axis=1, dtype=np.float32).tobytes() == plain.rescore(query, all_of(index)).tobytes()


@pytest.mark.parametrize("tokens", [1, 5, 32])
@pytest.mark.parametrize("nprobe", [1, 3, 8, 1000])
def test_warp_scores_are_those_of_its_definition(index: WarpIndex, tokens: int, nprobe: int) -> None:
    searcher = Searcher(index, warp_kernels)
    query = searcher.prepare(random_query(7 * tokens + nprobe, tokens))
    expected = naive_warp(index, query, nprobe)
    hits = searcher.warp(query, index.spec.documents, nprobe=nprobe)
    assert sorted(hits.documents.tolist()) == sorted(expected)
    # The levels' query is rounded to 1/1023 of its largest component; the definition here rounds nothing twice.
    assert hits.scores == pytest.approx([expected[one] for one in hits.documents.tolist()], abs=2e-3 * tokens)
    assert (np.diff(hits.scores) <= 0).all()


def test_every_number_of_threads_gives_the_same_answer(index: WarpIndex) -> None:
    one, many = Searcher(index, warp_kernels), Searcher(index, warp_kernels, threads=5)
    query = one.prepare(random_query(3, 9))
    for ask in ("warp", "wide"):
        single, several = getattr(one, ask)(query, 40), getattr(many, ask)(query, 40)
        assert single.documents.tolist() == several.documents.tolist()
        assert single.scores.tobytes() == several.scores.tobytes()
    assert one.rescore(query, all_of(index)).tobytes() == many.rescore(query, all_of(index)).tobytes()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), tokens=st.integers(1, 32), chosen=st.lists(st.integers(0, 149), min_size=1))
def test_a_score_depends_on_the_document_and_the_query_alone(
    standard: WarpIndex, seed: int, tokens: int, chosen: list[int]
) -> None:
    searcher = Searcher(standard, warp_kernels)
    query = searcher.prepare(random_query(seed, tokens))
    alone = [searcher.rescore(query, np.array([one]))[0] for one in chosen]
    assert searcher.rescore(query, np.array(chosen)).tolist() == alone


def test_a_score_is_the_same_in_another_index(tmp_path: Path, standard: WarpIndex, documents: Documents) -> None:
    few = built(tmp_path, documents[40:60])
    query = random_query(5, 12)
    here, there = Searcher(standard, warp_kernels), Searcher(few, warp_kernels)
    expected = here.rescore(here.prepare(query), np.arange(40, 60))
    assert there.rescore(there.prepare(query), np.arange(20)).tobytes() == expected.tobytes()


def test_wide_is_the_exact_order_of_what_it_found(standard: WarpIndex) -> None:
    searcher = Searcher(standard, warp_kernels)
    query = searcher.prepare(random_query(8, 10))
    hits = searcher.wide(query, 10, nprobe=1000, candidates=150)
    exact = searcher.rescore(query, all_of(standard))
    order = np.lexsort((all_of(standard), -exact))[:10]
    assert hits.documents.tolist() == order.tolist()
    assert hits.scores.tobytes() == exact[order].tobytes()


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5])
def test_filters_hold_while_scores_are_added_up(index: WarpIndex, share: float) -> None:
    searcher = Searcher(index, warp_kernels)
    query = searcher.prepare(random_query(21, 6))
    allowed = np.random.default_rng(4).random(index.spec.documents) < share
    expected = naive_warp(index, query, 4, allowed)
    assert sorted(searcher.warp(query, 150, nprobe=4, allowed=allowed).documents.tolist()) == sorted(expected)
    wide = searcher.wide(query, 10, nprobe=4, candidates=10, allowed=allowed)
    assert allowed[wide.documents].all()
    assert len(wide.documents) == min(10, allowed.sum() if share < 0.05 else len(expected))


HUGE = (1, codes_of(np.random.default_rng(0).standard_normal((20_000, DIM))))
ADVERSARIAL: dict[str, Documents] = {
    "one document of one token": [(1, codes_of(np.ones((1, DIM))))],
    "one-token documents": [(n, codes_of(np.random.default_rng(n).standard_normal((1, DIM)))) for n in range(1, 90)],
    "all tokens alike": [(n, codes_of(np.ones((5, DIM)))) for n in range(1, 60)],
    "zero vectors": [(n, np.zeros((3, DIM), np.int8)) for n in range(1, 40)],
    "zero vectors among others": [*random_documents(3, 30), (900, np.zeros((2, DIM), np.int8))],
    "a huge document": [
        (1, codes_of(np.random.default_rng(0).standard_normal((20_000, DIM)))),
        *random_documents(2, 9),
    ],
    "extreme codes": [(n, np.full((4, DIM), 127 if n % 2 else -127, np.int8)) for n in range(1, 30)],
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[0]}-{kind[1]}")
@pytest.mark.parametrize("name", ADVERSARIAL)
def test_adversarial_corpora(tmp_path: Path, name: str, kind: tuple) -> None:
    documents = sorted(ADVERSARIAL[name], key=lambda document: document[0])
    index = built(tmp_path, documents, profile=kind[0], bits=kind[1])
    searcher, plain = Searcher(index, warp_kernels), Searcher(index, None)
    for tokens in (1, 32):
        query = searcher.prepare(random_query(tokens, tokens))
        assert searcher.rescore(query, all_of(index)).tobytes() == plain.rescore(query, all_of(index)).tobytes()
        expected = naive_warp(index, query, 8)
        hits = searcher.warp(query, len(documents), nprobe=8)
        assert sorted(hits.documents.tolist()) == sorted(expected)
        assert hits.scores == pytest.approx([expected[one] for one in hits.documents.tolist()], abs=3e-3 * tokens)
        assert len(searcher.wide(query, 5).documents) == min(5, len(documents))
    if kind[0] == "standard":
        query = searcher.prepare(random_query(3, 3))
        assert searcher.rescore(query, np.array([0]))[0] == naive_maxsim(documents[0][1], query)


def test_a_zero_query_scores_nothing(standard: WarpIndex) -> None:
    searcher = Searcher(standard, warp_kernels)
    query = searcher.prepare(np.zeros((4, DIM), np.float32))
    assert not searcher.rescore(query, all_of(standard)).any()
    assert len(searcher.wide(query, 10).documents) == 10


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[0]}-{kind[1]}")
def test_an_empty_index_finds_nothing(tmp_path: Path, kind: tuple) -> None:
    searcher = Searcher(built(tmp_path, [], profile=kind[0], bits=kind[1]), warp_kernels)
    query = searcher.prepare(random_query(1, 3))
    assert not len(searcher.wide(query, 5).documents)
    assert not len(searcher.rescore(query, np.empty(0, np.int64)))


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.full((2, DIM), np.nan, np.float32), "NaN or infinity"),
        (np.full((2, DIM), np.inf, np.float32), "NaN or infinity"),
        (np.zeros((0, DIM), np.float32), "query vectors of shape"),
        (np.zeros((33, DIM), np.float32), "query vectors of shape"),
        (np.zeros((2, DIM + 2), np.float32), "query vectors of shape"),
        (np.zeros(DIM, np.float32), "query vectors of shape"),
    ],
)
def test_a_query_that_is_none_is_refused(standard: WarpIndex, vectors: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Searcher(standard, warp_kernels).prepare(vectors)


def test_a_document_that_is_not_there_is_refused(standard: WarpIndex) -> None:
    searcher = Searcher(standard, warp_kernels)
    query = searcher.prepare(random_query(1, 3))
    for documents in ([150], [-1, 3]):
        with pytest.raises(IndexError):
            searcher.rescore(query, np.array(documents))


def test_query_steps_are_within_half_a_step() -> None:
    vectors = random_query(2, 20)
    query = prepare(vectors, SCALES, np.stack([np.full(DIM, -3, np.float32), np.full(DIM, 0.4, np.float32)]))
    shown = query.codes.values * query.codes.step[:, None]
    assert (np.abs(shown - vectors * SCALES) <= 0.5001 * query.codes.step[:, None]).all()
    assert np.abs(query.codes.values).max() == QUERY_MAX
    assert query.codes.lanes.shape == (DIM // 2, 2, 2 * LANES)
    assert query.codes.lanes[3, 1, 2 * 2 + 1] == query.codes.values[18, 7]
    assert not query.codes.lanes[:, 1, 2 * 4 :].any()


def test_damaged_numbers_lead_nowhere(tmp_path: Path, documents: Documents) -> None:
    """A file that lies about documents and clusters gives other scores, never a read outside of the arrays."""
    for profile in ("standard", "compact"):
        sound = built(tmp_path / profile, documents, profile=profile)
        random = np.random.default_rng(0)
        strange = random.integers(-(2**31), 2**31, sound.spec.postings).astype(np.int32)
        damaged = replace(sound, pids=strange)
        if sound.doc_centroids is not None:
            damaged = replace(damaged, doc_centroids=random.integers(0, 2**16, sound.spec.tokens).astype(np.uint16))
        searcher, plain = Searcher(damaged, warp_kernels, threads=2), Searcher(damaged, None)
        query = searcher.prepare(random_query(4, 20))
        hits = searcher.warp(query, 50)
        assert set(hits.documents.tolist()) <= set(range(150))
        assert np.isfinite(hits.scores).all()
        found = searcher.rescore(query, all_of(damaged))
        assert found.tobytes() == plain.rescore(query, all_of(damaged)).tobytes()


def test_a_deadline_ends_the_work_and_spoils_nothing(index: WarpIndex) -> None:
    searcher = Searcher(index, warp_kernels)
    query = searcher.prepare(random_query(6, 20))
    expected = searcher.wide(query, 20, candidates=40)
    for looks in range(0, 24, 3):
        with pytest.raises(DeadlineError):
            searcher.wide(query, 20, candidates=40, check=after(looks))
        again = searcher.wide(query, 20, candidates=40)
        assert again.documents.tolist() == expected.documents.tolist()
        assert again.scores.tobytes() == expected.scores.tobytes()
    with pytest.raises(DeadlineError):
        searcher.rescore(query, all_of(index), after(1))


def after(looks: int) -> Callable[[], None]:
    """A check that raises when it is made once more than so many times."""
    moments = iter([0.0, *[0.0] * looks, *[2.0] * 10_000])
    return Deadline.after(1.0, clock=lambda: next(moments)).check


def test_a_reader_that_ran_long_starts_its_stamps_again(standard: WarpIndex) -> None:
    searcher = Searcher(standard, warp_kernels)
    query = searcher.prepare(random_query(6, 20))
    expected = searcher.warp(query, 20)
    (scratch,) = searcher._free
    scratch.stamp = warp_search._STAMPS - 5
    for _ in range(3):
        again = searcher.warp(query, 20)
        assert again.scores.tobytes() == expected.scores.tobytes()
    assert 0 < scratch.stamp < 100


def test_without_numba_wide_search_says_so(standard: WarpIndex) -> None:
    searcher = Searcher(standard, None)
    query = searcher.prepare(random_query(6, 20))
    with pytest.raises(UnavailableError, match="numba is not installed") as caught:
        searcher.wide(query, 20, candidates=40)
    assert "codequarry[warp]" in caught.value.suggestion


def test_no_request_compiles(index: WarpIndex) -> None:
    kernels = [each for each in vars(warp_kernels).values() if hasattr(each, "overloads")]
    before = {each.__name__: len(each.overloads) for each in kernels}
    assert {"maxima", "maxima_packed", "probe", "products", "scan_clusters", "scan_residuals"} <= before.keys()
    searcher = Searcher(index, warp_kernels, threads=2)
    for tokens in (1, 32):
        query = searcher.prepare(random_query(tokens, tokens))
        searcher.wide(query, 20, candidates=40)
        searcher.wide(query, 20, allowed=np.arange(150) < 100)
    assert {each.__name__: len(each.overloads) for each in kernels} == before
    with pytest.raises(TypeError, match="No matching definition"):
        warp_kernels.products(np.zeros((3, DIM), np.float64), query.codes.lanes, np.zeros((3, 32), np.int32))


@pytest.mark.slow
def test_the_next_process_compiles_nothing(tmp_path: Path) -> None:
    program = (
        "from codequarry.serving.channels.warp import kernels as warp_kernels\n"
        "stats = [each.stats for each in vars(warp_kernels).values() if hasattr(each, 'stats') and each.overloads]\n"
        "print(sum(sum(one.cache_hits.values()) for one in stats))\n"
        "print(sum(sum(one.cache_misses.values()) for one in stats))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}

    def from_cache_and_compiled() -> list[int]:
        command = [sys.executable, "-c", program]
        return [int(word) for word in subprocess.check_output(command, env=environment, text=True).split()]

    first, second = from_cache_and_compiled(), from_cache_and_compiled()
    assert first[0] == 0
    assert first[1] > second[0] > 5
    assert second[1] == 0
