"""The one place in which a version has its vectors: what Parquet readers see is what FAISS compares."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from codequarry.schemas.bundle.tables import write_vectors
from codequarry.schemas.errors import UnavailableError
from codequarry.serving.channels.dense import FaissChannel
from codequarry.serving.channels.vector_table import VectorTable, exact_indexes, map_codes
from tests.serving.channels.ask_channel import ask_channel
from tests.serving.channels.test_dense import DIM, IDS, QUERIES, ROWS, VECTORS, Rows, ready

CUTS = [3, 3, 700, 1201]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Four shards and an empty one."""
    parts = np.split(np.arange(ROWS), CUTS)
    for number, rows in enumerate(parts):
        write_vectors(tmp_path / f"embeddings.{number:02}.parquet", IDS[rows], VECTORS[rows])
    return sorted(tmp_path.iterdir())


def table_of(files: list[Path], vectors: np.ndarray = VECTORS) -> VectorTable:
    lengths = map(len, np.split(np.arange(len(vectors)), CUTS))
    return VectorTable([map_codes(file, rows, DIM) for file, rows in zip(files, lengths, strict=True)], DIM)


def test_parquet_readers_and_the_map_see_the_same_numbers(files: list[Path]) -> None:
    half = VECTORS.astype(np.float16).astype(np.float32)
    held = table_of(files)
    assert held.shape == (ROWS, DIM)
    assert np.array_equal(held[np.arange(ROWS)], half)
    some = np.array([1999, 0, 3, 2, 700, 700])
    assert np.array_equal(held[some], half[some])
    assert np.array_equal(held[2:1300], half[2:1300])
    assert np.array_equal(held.between(slice(2, 1300))[:], half[2:1300])
    pattern = str(files[0].parent / "embeddings.*parquet")
    seen = duckdb.sql(f"SELECT chunk_id, vector::FLOAT[{DIM}] AS vector FROM read_parquet('{pattern}')")
    found = seen.fetchnumpy()
    assert found["chunk_id"].tolist() == IDS.tolist()
    assert np.array_equal(np.stack(found["vector"]), half)


def test_a_shard_of_many_rows_has_its_numbers_in_one_page(tmp_path: Path) -> None:
    rows, file = 20_001, tmp_path / "embeddings.parquet"  # Arrow begins a page after 20,000 rows, if nobody objects
    vectors = np.arange(rows * 2).reshape(rows, 2) % 1_000
    write_vectors(file, np.arange(rows), vectors)
    assert np.array_equal(VectorTable([map_codes(file, rows, 2)], 2)[:], vectors)


def test_a_number_takes_two_bytes_and_little_more(files: list[Path]) -> None:
    file = files[-1]
    rows = pq.read_metadata(file).num_rows
    footer = int.from_bytes(file.read_bytes()[-8:-4], "little")
    levels = DIM // 8  # a bit that says where a list begins
    assert file.stat().st_size - footer < rows * (2 * DIM + levels + 8) + 200


def test_shards_answer_like_one_file_and_all_equal_vectors_are_found(tmp_path: Path) -> None:
    """Half of the vectors are the same, and lie in every shard."""
    vectors = np.where(np.arange(ROWS)[:, None] % 2 == 0, QUERIES[:1], VECTORS).astype(np.float32)
    parts = [np.arange(ROWS)], np.split(np.arange(ROWS), CUTS)
    answers = []
    for own in parts:
        codes = []
        for number, rows in enumerate(own):
            file = tmp_path / f"{len(own)}.{number}.parquet"
            write_vectors(file, IDS[rows], vectors[rows])
            codes.append(map_codes(file, len(rows), DIM))
        channel = FaissChannel(exact_indexes(VectorTable(codes, DIM), IDS), ready(Rows()), source="x")
        asked = [ask_channel(channel, str(row), 20) for row in range(len(QUERIES))]
        allowed = [ask_channel(channel, str(row), 20, allowed=IDS[::5]) for row in range(len(QUERIES))]
        answers.append([(each.chunk_ids.tolist(), each.scores.tolist()) for each in (*asked, *allowed)])
        channel.close()
    assert answers[0] == answers[1]
    assert answers[0][0][0] == IDS[::2][:20].tolist()


def test_half_precision_finds_what_float32_finds(files: list[Path]) -> None:
    channel = FaissChannel(exact_indexes(table_of(files), IDS), ready(Rows()), source="x")
    held = 0
    for row, query in enumerate(QUERIES):
        oracle = VECTORS @ query
        found = ask_channel(channel, str(row), 10)
        held += len(set(found.chunk_ids.tolist()) & set(IDS[np.argsort(-oracle)[:10]].tolist()))
        scores = dict(zip(IDS.tolist(), oracle.tolist(), strict=True))
        assert found.scores.tolist() == pytest.approx([scores[one] for one in found.chunk_ids.tolist()], abs=1e-3)
    assert held >= 0.995 * 10 * len(QUERIES)
    channel.close()


def test_a_file_that_cannot_hold_the_promised_vectors_is_refused(files: list[Path]) -> None:
    with pytest.raises(UnavailableError, match="does not hold 2000 vectors"):
        map_codes(files[-1], ROWS, DIM)
    files[0].write_bytes(b"PAR1")
    with pytest.raises(UnavailableError, match="does not hold 3 vectors"):
        map_codes(files[0], 3, DIM)
    with pytest.raises(UnavailableError, match="cannot be mapped"):
        map_codes(files[0].with_name("absent"), 3, DIM)
    with pytest.raises(UnavailableError, match="the id map has 5 rows"):
        exact_indexes(VectorTable([], DIM), IDS[:5])
