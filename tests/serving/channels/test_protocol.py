"""The protocol of channels, shown by one suite that runs over all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from codequarry.schemas.errors import DeadlineError, IntegrityError, UnavailableError
from codequarry.serving.channels.base import Candidates, Channel, ChannelQuery, ShutChannel
from codequarry.serving.channels.bm25 import Bm25Channel
from codequarry.serving.channels.dense import FaissChannel
from codequarry.serving.channels.query_encoder import LazyEncoder
from codequarry.serving.channels.splade import SpladeChannel
from codequarry.serving.channels.splade import _OpenTerms as OpenedSplade
from codequarry.serving.channels.symbol import SymbolChannel
from codequarry.serving.channels.warp import kernels
from codequarry.serving.channels.warp.channel import WarpChannel
from codequarry.serving.channels.warp.channel import _OpenTokens as OpenedWarp
from codequarry.serving.channels.warp.search import Searcher
from codequarry.serving.request.deadline import NEVER, Deadline
from codequarry.serving.text.query_classes import analyze_query
from codequarry.serving.version.open import SERVED_CHANNELS, Bundle
from tests.serving.bundles import sparse_corpus, warp_corpus
from tests.serving.bundles.bundle_factory import Piece, definition_row, mapped_index, write_bundle
from tests.serving.channels.ask_channel import ask_channel

COUNT = 300
"""Chunks of every channel: more than are listed in a lexical query, fewer than late interaction rescores."""
WORDS = ("alpha", "beta", "gamma", "delta")
QUERY = "alpha beta"
UNKNOWN = "zzqy"


def done(value: object) -> Future:
    future: Future = Future()
    future.set_result(value)
    return future


def failed(error: Exception) -> Future:
    future: Future = Future()
    future.set_exception(error)
    return future


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def lexical_bundle(folder: Path) -> Bundle:
    """Chunks of the same few words, so that many of them tie, with a definition of each."""
    random = np.random.default_rng(7)
    pieces = [
        Piece(f"a{number}.py", " ".join(random.choice(WORDS, 3)), name, (name,), start_line=number)
        for number in range(COUNT)
        for name in ["_".join(random.choice(WORDS, 1 + number % 2, replace=False))]
    ]
    write_bundle(folder, pieces, rows={"ast_nodes": [definition_row(one, one.symbols[0]) for one in pieces]})
    return Bundle.open_current(folder, channels=("bm25", "symbol"))


def open_bm25(folder: Path) -> Channel:
    return lexical_bundle(folder).channels["bm25"]


def open_symbol(folder: Path) -> Channel:
    return lexical_bundle(folder).channels["symbol"]


class OneVector:
    """Encodes every query as the same vector."""

    def encode_query(self, _: str) -> np.ndarray:
        return unit(np.ones((1, 16)))[0]


def open_dense(factory: str, opening: Callable[[], Future] = lambda: done(OneVector())) -> Channel:
    vectors = unit(np.random.default_rng(5).integers(1, 4, (COUNT, 16)))
    index = mapped_index(np.arange(10, 10 + COUNT), vectors, factory)
    stored = None if factory == "Flat" else vectors
    return FaissChannel([index], LazyEncoder.started(opening()), source="x", vectors=stored)


def open_splade(folder: Path, opening: Callable[[object], Future] = done) -> Channel:
    documents = [
        (10 + number, sparse_corpus.impacts({number % 3: 1 + number % 2, 3: 5 if number % 7 == 0 else 1}))
        for number in range(COUNT)
    ]
    index = sparse_corpus.built(folder / "splade", documents, 5)

    def read(text: str):
        return sparse_corpus.query({} if text == UNKNOWN else {0: 2, 3: 1})

    return SpladeChannel(opening(OpenedSplade(SimpleNamespace(), read)), index, source="x")  # pyright: ignore


def open_warp(folder: Path, opening: Callable[[object], Future] = done) -> Channel:
    documents = warp_corpus.random_documents(1, COUNT // 2, longest=4, topics=3)
    # The same tokens under two ids: their scores tie.
    twins = [(10 * COUNT + at, tokens) for at, (_, tokens) in enumerate(documents)]
    index = warp_corpus.built(folder / "warp", [*documents, *twins])
    searcher = Searcher(index, kernels)
    vectors = searcher.prepare(warp_corpus.random_query(2, 3))

    def read(_: str):
        return SimpleNamespace(cut=False, texts=("a",)), vectors

    ids = np.array([one for one, _ in [*documents, *twins]], np.int64)
    return WarpChannel(opening(OpenedWarp(SimpleNamespace(), read, searcher, read, "")), ids, source="x")  # pyright: ignore


@dataclass(frozen=True)
class Kind:
    """A kind of channel, and what its index cannot promise."""

    open: Callable[[Path], Channel]
    by_meaning: bool = False
    """Ranks every chunk there is, whatever the query."""
    approximate: bool = False
    """Without a filter it may miss chunks."""


KINDS = {
    "bm25": Kind(open_bm25),
    "symbol": Kind(open_symbol),
    "faiss": Kind(lambda _: open_dense("Flat"), by_meaning=True),
    "faiss hnsw": Kind(lambda _: open_dense("HNSW16,SQ8"), by_meaning=True, approximate=True),
    "splade": Kind(open_splade),
    "warp": Kind(open_warp, by_meaning=True),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture(scope="module")
def channel(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Channel]:
    opened = kind.open(tmp_path_factory.mktemp("channel"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def everything(channel: Channel) -> Candidates:
    """The whole ranking of the query."""
    return ask_channel(channel, QUERY, 10 * COUNT)


def test_the_suite_covers_every_channel_that_is_served() -> None:
    assert {name.split()[0] for name in KINDS} | {"faiss2"} == set(SERVED_CHANNELS)


def test_a_channel_names_itself_and_has_no_problem(channel: Channel) -> None:
    assert channel.name in SERVED_CHANNELS
    assert channel.source
    assert channel.problem() is None


def test_candidates_are_chunks_with_scores_each_once(everything: Candidates) -> None:
    assert len(everything.chunk_ids) > 30
    assert (everything.chunk_ids.dtype, everything.scores.dtype) == (np.int64, np.float32)
    assert everything.chunk_ids.shape == everything.scores.shape
    assert len(np.unique(everything.chunk_ids)) == len(everything.chunk_ids)
    assert np.isfinite(everything.scores).all()
    assert set(everything.reasons) <= set(everything.chunk_ids.tolist())


def test_order_is_by_score_and_then_by_id_and_ties_exist(everything: Candidates) -> None:
    order = np.lexsort((everything.chunk_ids, -everything.scores))
    assert order.tolist() == list(range(len(order)))
    assert len(np.unique(everything.scores)) < len(everything.scores)


def test_the_same_question_gets_the_same_bytes(channel: Channel, everything: Candidates) -> None:
    again = ask_channel(channel, QUERY, 10 * COUNT)
    assert again.chunk_ids.tobytes() == everything.chunk_ids.tobytes()
    assert again.scores.tobytes() == everything.scores.tobytes()
    assert (again.notes, again.reasons) == (everything.notes, everything.reasons)


@pytest.mark.parametrize("limit", [1, 2, 7, 20])
def test_a_shorter_ranking_is_the_head_of_the_whole_one(
    kind: Kind, channel: Channel, everything: Candidates, limit: int
) -> None:
    found = ask_channel(channel, QUERY, limit)
    assert len(found.chunk_ids) == limit
    if not kind.approximate:
        assert found.chunk_ids.tolist() == everything.chunk_ids[:limit].tolist()
        assert found.scores.tolist() == everything.scores[:limit].tolist()


@pytest.mark.parametrize("share", [0.05, 0.3, 0.95])
def test_a_filtered_ranking_is_the_whole_one_without_the_others(
    channel: Channel, everything: Candidates, share: float
) -> None:
    ids = np.sort(everything.chunk_ids)
    allowed = ids[np.random.default_rng(3).random(len(ids)) < share]
    assert len(allowed)
    found = ask_channel(channel, QUERY, 20, allowed=allowed)
    kept = np.isin(everything.chunk_ids, allowed)
    assert found.chunk_ids.tolist() == everything.chunk_ids[kept][:20].tolist()
    assert found.scores.tolist() == pytest.approx(everything.scores[kept][:20].tolist(), abs=1e-6)


def test_chunks_that_the_index_lacks_may_be_allowed(channel: Channel, everything: Candidates) -> None:
    allowed = np.sort(np.append(everything.chunk_ids[:3], (1 << 62) + 1))
    assert ask_channel(channel, QUERY, 9, allowed=allowed).chunk_ids.tolist() == everything.chunk_ids[:3].tolist()


def test_where_nothing_is_allowed_nothing_is_found(channel: Channel) -> None:
    found = ask_channel(channel, QUERY, 9, allowed=np.empty(0, np.int64))
    assert (found.chunk_ids.tolist(), found.scores.tolist()) == ([], [])
    assert (found.chunk_ids.dtype, found.scores.dtype) == (np.int64, np.float32)


def test_unknown_words_find_nothing_except_by_meaning(kind: Kind, channel: Channel) -> None:
    assert len(ask_channel(channel, UNKNOWN, 9).chunk_ids) == (9 if kind.by_meaning else 0)


def test_approximate_scores_are_another_ranking_of_the_same_chunks(channel: Channel, everything: Candidates) -> None:
    found = ask_channel(channel, QUERY, 20, rerank=False)
    assert len(found.chunk_ids) == 20
    assert np.isin(found.chunk_ids, everything.chunk_ids).all()
    assert (np.diff(found.scores) <= 0).all()


def test_no_channel_begins_after_the_deadline_or_for_a_client_that_left(channel: Channel) -> None:
    for deadline in (Deadline.after(-1), Deadline.after(60, abandoned=lambda: True)):
        with pytest.raises(DeadlineError):
            ask_channel(channel, QUERY, 9, deadline=deadline)
    assert len(ask_channel(channel, QUERY, 9, deadline=Deadline.after(60)).chunk_ids) == 9


def test_a_closed_channel_is_unavailable_and_may_be_closed_again(kind: Kind, tmp_path: Path) -> None:
    channel = kind.open(tmp_path)
    channel.close()
    channel.close()
    with pytest.raises(UnavailableError):
        ask_channel(channel, QUERY, 9)


def test_a_channel_that_was_shut_says_why(channel: Channel) -> None:
    shut = ShutChannel(channel, "its files are damaged")
    assert (shut.name, shut.source, shut.problem()) == (channel.name, channel.source, "its files are damaged")
    with pytest.raises(UnavailableError) as caught:
        ask_channel(shut, QUERY, 9)
    assert caught.value.message == "its files are damaged"


@pytest.mark.parametrize(
    "opened",
    [
        lambda _, opening: open_dense("Flat", lambda: opening(None)),
        open_splade,
        open_warp,
    ],
    ids=["faiss", "splade", "warp"],
)
def test_an_encoder_that_cannot_be_opened_is_a_problem_and_no_crash(opened, tmp_path: Path) -> None:
    channel = opened(tmp_path, lambda _: failed(IntegrityError("encoder/model.onnx is damaged")))
    assert channel.problem() == "encoder/model.onnx is damaged"
    with pytest.raises(UnavailableError) as caught:
        ask_channel(channel, QUERY, 9)
    assert caught.value.message == "encoder/model.onnx is damaged"
    still_opening = opened(tmp_path / "later", lambda _: Future())
    assert still_opening.problem() is None


def test_one_record_serves_every_channel_and_never_changes(channel: Channel) -> None:
    asked = ChannelQuery(analyze_query(QUERY), 5)
    before = replace(asked)
    channel.search(asked)
    assert asked == before
    assert (asked.allowed, asked.rerank, asked.deadline) == (None, True, NEVER)
    assert isinstance(channel, Bm25Channel | FaissChannel | SpladeChannel | SymbolChannel | WarpChannel)
