"""FAISS against exact search in NumPy, for every kind of index the settings allow."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

from codequarry.schemas.bundle.faiss_tuning import FaissTuning, OperatingPoint, read_tuning
from codequarry.schemas.errors import UnavailableError
from codequarry.serving.channels import dense
from codequarry.serving.channels.dense import FaissChannel, source_name
from codequarry.serving.channels.faiss_search import Effort
from codequarry.serving.channels.query_encoder import LazyEncoder
from tests.serving.bundles.bundle_factory import mapped_index
from tests.serving.channels.ask_channel import ask_channel

ROWS, DIM, LIMIT = 2000, 32, 20
EXACT, APPROXIMATE = ("Flat",), ("HNSW32,SQ8", "IVF16,SQ8", "IVF16,PQ16x4fs_64", "PCA16,IVF16,Flat")


def unit(shape: tuple[int, int], seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


VECTORS = unit((ROWS, DIM), 1)
QUERIES = unit((20, DIM), 2)
IDS = np.sort(np.random.default_rng(3).choice(2**62, ROWS, replace=False)).astype(np.int64)


class Rows:
    """Encodes the query "7" as row 7 of the queries."""

    def encode_query(self, text: str) -> np.ndarray:
        return QUERIES[int(text)]


def ready(encoder: object) -> LazyEncoder:
    future: Future = Future()
    future.set_result(encoder)
    return LazyEncoder.started(future)


@pytest.fixture(scope="module", params=[*EXACT, "Flat in shards", *APPROXIMATE])
def channel(request) -> FaissChannel:
    factory, _, sharded = request.param.partition(" ")
    # Shards of any size, ids anywhere: the first holds fewer rows than are asked for.
    rows = np.random.default_rng(4).permutation(ROWS)
    parts = np.split(rows, [3, 700, 701]) if sharded else [np.arange(ROWS)]
    shards = [mapped_index(IDS[part], VECTORS[part], factory) for part in parts]
    stored = None if factory in EXACT else VECTORS
    return FaissChannel(shards, ready(Rows()), source=source_name(factory), vectors=stored)


def exact(row: int, rows: np.ndarray, limit: int) -> tuple[list[int], np.ndarray]:
    scores = VECTORS[rows] @ QUERIES[row]
    order = np.lexsort((IDS[rows], -scores))[:limit]
    return IDS[rows][order].tolist(), scores[order]


def test_neighbours_are_the_exact_ones_or_nearly(channel) -> None:
    recall = []
    for row in range(len(QUERIES)):
        found = ask_channel(channel, str(row), LIMIT)
        ids, scores = exact(row, np.arange(ROWS), LIMIT)
        recall.append(len(set(found.chunk_ids.tolist()) & set(ids)) / LIMIT)
        if channel.source == "faiss_flat":
            assert found.chunk_ids.tolist() == ids
            assert found.scores == pytest.approx(scores, abs=1e-5)
        true = dict(zip(IDS.tolist(), (VECTORS @ QUERIES[row]).tolist(), strict=True))
        assert found.scores.tolist() == pytest.approx([true[one] for one in found.chunk_ids.tolist()], abs=1e-5)
        assert (np.diff(found.scores) <= 0).all()
    assert np.mean(recall) >= {"faiss_flat": 1.0, "faiss_hnsw_sq8": 0.8}.get(channel.source, 0.1)


@pytest.mark.parametrize("count", [0, 1, 10, 500])
def test_only_allowed_chunks_are_returned(channel, count: int) -> None:
    rows = np.sort(np.random.default_rng(5).choice(ROWS, count, replace=False))
    found = ask_channel(channel, "3", LIMIT, allowed=IDS[rows])
    assert found.chunk_ids.tolist() == exact(3, rows, LIMIT)[0]


def test_beyond_the_exact_scan_the_index_filters_itself(channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "_SCAN", 0)
    rows = np.arange(0, ROWS, 2)
    found = ask_channel(channel, "3", LIMIT, allowed=IDS[rows])
    assert len(found.chunk_ids) == LIMIT
    assert np.isin(found.chunk_ids, IDS[rows]).all()


TUNING = FaissTuning(
    factory="IVF16,SQ8",
    vectors=ROWS,
    queries=20,
    floor=0.9,
    chosen=OperatingPoint(parameters="nprobe=16", recall=1.0, comparisons=ROWS),
    bounds={"nprobe": (1, 16)},
    frontier=(),
)


def test_an_index_is_opened_at_the_point_chosen_for_it() -> None:
    for tuning, finds_all in ((None, False), (TUNING, True)):
        index = mapped_index(IDS, VECTORS, "IVF16,SQ8")
        channel = FaissChannel([index], ready(Rows()), source="x", vectors=VECTORS, tuning=tuning)
        found = ask_channel(channel, "3", LIMIT)
        assert (found.chunk_ids.tolist() == exact(3, np.arange(ROWS), LIMIT)[0]) == finds_all
        assert channel.bounds == {"nprobe": (1, 16)}


def test_a_point_that_the_index_does_not_have_turns_the_channel_off() -> None:
    strange = TUNING.model_copy(update={"chosen": TUNING.chosen.model_copy(update={"parameters": "depth=3"})})
    with pytest.raises(UnavailableError, match="no operating point depth=3"):
        FaissChannel([mapped_index(IDS, VECTORS, "IVF16,SQ8")], ready(Rows()), source="x", tuning=strange)


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b"[" * 10_000])
def test_a_damaged_tuning_is_said(tmp_path: Path, data: bytes) -> None:
    assert read_tuning(tmp_path / "faiss.tuning.json") is None
    (tmp_path / "faiss.tuning.json").write_bytes(data)
    with pytest.raises(UnavailableError, match=r"faiss\.tuning\.json cannot be read"):
        read_tuning(tmp_path / "faiss.tuning.json")


def test_shards_that_are_not_exact_are_searched_together() -> None:
    parts = np.split(np.arange(ROWS), [700, 1400])
    shards = [mapped_index(IDS[part], VECTORS[part], "IVF8,SQ8") for part in parts]
    channel = FaissChannel(shards, ready(Rows()), source="x", vectors=VECTORS)
    deep = ask_channel(channel, "3", LIMIT, effort=Effort(nprobe=8))
    assert deep.chunk_ids.tolist() == exact(3, np.arange(ROWS), LIMIT)[0]
    assert ask_channel(channel, "3", LIMIT).chunk_ids.tolist() != deep.chunk_ids.tolist()
    channel.close()


def test_an_encoder_that_nobody_asks_is_never_opened() -> None:
    begun: list[Future] = []

    def start() -> Future:
        begun.append(Future())
        begun[-1].set_result(Rows())
        return begun[-1]

    encoder = LazyEncoder(start)
    channel = FaissChannel([mapped_index(IDS, VECTORS, "Flat")], encoder, source="faiss2_flat", name="faiss2")
    assert (channel.name, channel.problem(), begun) == ("faiss2", None, [])
    for _ in range(2):
        assert ask_channel(channel, "0", LIMIT).chunk_ids.tolist() == exact(0, np.arange(ROWS), LIMIT)[0]
    assert len(begun) == 1
    LazyEncoder(start).wait()
    assert len(begun) == 1
