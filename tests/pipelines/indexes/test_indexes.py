"""The indexes the pipeline writes, against exact and naive answers."""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.pipelines.indexes import bm25 as bm25_index
from codequarry.pipelines.indexes.bm25 import write_meta, write_segments
from codequarry.pipelines.indexes.faiss import is_exact, write_faiss, write_idmap
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.tables import CHUNKS
from codequarry.serving.channels.bm25 import Bm25Channel
from codequarry.serving.text.lexical import FIELDS, ID_FIELD, field_texts, open_searcher
from tests.serving.bundles.bundle_factory import Piece, placed_terms, write_bm25
from tests.serving.channels.ask_channel import ask_channel


def unit_vectors(count: int, dim: int, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def ids_for(count: int) -> np.ndarray:
    """Ascending ids over the whole 63-bit range."""
    return 1 + np.arange(count, dtype=np.int64) * (((1 << 63) - 2) // count)


@pytest.mark.parametrize(
    ("factory", "exact", "floor"), [("Flat", True, 1.0), ("HNSW32,SQ8", False, 0.9), ("IVF16,Flat", False, 0.2)]
)
def test_the_index_returns_chunk_ids_as_exact_search_does(
    tmp_path: Path, factory: str, exact: bool, floor: float
) -> None:
    paths = BundlePaths(tmp_path)
    vectors, ids = unit_vectors(700, 32), ids_for(700)
    assert is_exact(factory, 32) == exact
    write_faiss(paths.path / "faiss.index", ids, vectors, factory)
    write_idmap(paths.faiss_idmap, [ids[:300], ids[300:]])
    index = faiss.read_index(str(paths.path / "faiss.index"), faiss.IO_FLAG_MMAP_IFC)
    queries = unit_vectors(50, 32, seed=1)
    _, found = index.search(queries, 10)
    expected = ids[np.argsort(-(queries @ vectors.T), axis=1)[:, :10]]
    recall = np.mean([len(set(one) & set(two)) / 10 for one, two in zip(found, expected, strict=True)])
    assert recall >= floor
    idmap = pq.read_table(paths.faiss_idmap)
    assert idmap["faiss_row"].to_pylist() == list(range(700))
    assert idmap["chunk_id"].to_pylist() == ids.tolist()


@pytest.mark.parametrize("factory", ["Flat", "HNSW32,SQ8", "IVF16,SQ8"])
def test_the_same_vectors_give_the_same_bytes(tmp_path: Path, factory: str) -> None:
    built = []
    for name in ("one", "two"):
        paths = BundlePaths(tmp_path / name)
        paths.path.mkdir()
        write_faiss(paths.path / "faiss.index", ids_for(900), unit_vectors(900, 16), factory)
        built.append((paths.path / "faiss.index").read_bytes())
    assert built[0] == built[1]


def chunk_table(texts: list[str]) -> pa.Table:
    rows = {
        "chunk_id": list(range(1, len(texts) + 1)),
        "repo": ["r"] * len(texts),
        "path": [f"src/file_{n}.py" for n in range(len(texts))],
        "lang": ["python"] * len(texts),
        "kind": ["function"] * len(texts),
        "qualified_name": [f"Box.get{n}" for n in range(len(texts))],
        "symbols": [[f"Box.get{n}"] for n in range(len(texts))],
        **{name: [""] * len(texts) for name in ("signature", "doc", "content_sha256")},
        "text": texts,
        **{name: [0] * len(texts) for name in ("start_byte", "end_byte", "start_line", "end_line", "comment_percent")},
    }
    return pa.table({name: rows[name] for name in CHUNKS.names}, schema=CHUNKS)


def build_bm25(paths: BundlePaths, *shards: pa.Table) -> None:
    """An index of one segment for each table."""
    paths.bm25.mkdir(parents=True)
    segments = [segment for chunks in shards for segment in write_segments(paths, chunks)]
    assert [segment.documents for segment in segments] == [len(chunks) for chunks in shards]
    write_meta(paths, segments)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.text("abAB_ .0\n", max_size=40), min_size=1, max_size=12), st.integers(1, 11))
def test_bm25_holds_exactly_the_analyzed_tokens(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], cut: int
) -> None:
    paths = BundlePaths(tmp_path_factory.mktemp("bundle"))
    chunks = chunk_table(texts)
    shards = [shard for shard in (chunks.slice(0, cut), chunks.slice(cut)) if len(shard)]
    build_bm25(paths, *shards)
    searcher, schema = open_searcher(paths.bm25)
    assert (searcher.num_docs, searcher.num_segments) == (len(texts), len(shards))
    expected: dict[tuple[str, str], set[int]] = {}
    for row in chunks.to_pylist():
        fields = field_texts(
            path=row["path"], symbols=row["symbols"], qualified_name=row["qualified_name"], text=row["text"]
        )
        assert tuple(fields) == FIELDS
        for field, value in fields.items():
            for term, _ in placed_terms(value):
                expected.setdefault((field, term), set()).add(row["chunk_id"])
    for (field, term), ids in expected.items():
        hits = searcher.search(tantivy.Query.term_query(schema, field, term), limit=100).hits
        assert set(searcher.fast_field_values(ID_FIELD, [address for _, address in hits])) == ids


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text("abAB_ .0=é\n", max_size=60), min_size=1, max_size=6))
def test_texts_are_indexed_like_terms_that_are_placed_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    chunks = chunk_table(texts)
    pieces = [
        Piece(row["path"], row["text"], symbols=tuple(row["symbols"]), qualified_name=row["qualified_name"])
        for row in chunks.to_pylist()
    ]
    ids = pa.array([piece.id for piece in pieces], pa.int64())
    paths, placed = BundlePaths(tmp_path_factory.mktemp("bundle")), tmp_path_factory.mktemp("placed")
    build_bm25(paths, chunks.set_column(CHUNKS.names.index("chunk_id"), CHUNKS.field("chunk_id"), ids))
    write_bm25(placed, pieces)
    postings = [
        {suffix: file.read_bytes() for suffix in ("idx", "pos", "term", "fieldnorm") for file in at.glob(f"*.{suffix}")}
        for at in (paths.bm25, placed)
    ]
    assert len(postings[0]) == 4
    assert postings[0] == postings[1]


def test_an_index_in_segments_scores_as_one(tmp_path: Path) -> None:
    words = ["open", "file", "read", "index", "close", "write"]
    dice = np.random.default_rng(5)
    chunks = chunk_table([" ".join(dice.choice(words, dice.integers(3, 30))) for _ in range(60)])
    answers = []
    for name, cuts in {"one": [60], "many": [7, 1, 30, 22]}.items():
        starts = np.cumsum([0, *cuts])
        shards = [chunks.slice(start, size) for start, size in zip(starts.tolist(), cuts, strict=False)]
        build_bm25(BundlePaths(tmp_path / name), *shards)
        channel = Bm25Channel.open(tmp_path / name / "bm25")
        answers.append([ask_channel(channel, word, 100) for word in [*words, "open the index"]])
    for one, many in zip(*answers, strict=True):
        assert one.chunk_ids.tolist() == many.chunk_ids.tolist()
        assert one.scores.tolist() == many.scores.tolist()


def test_the_same_chunks_give_the_same_bytes(tmp_path: Path) -> None:
    written = []
    for name, texts in {"one": ["open file"], "two": ["open file"], "three": ["open files"]}.items():
        build_bm25(BundlePaths(tmp_path / name), chunk_table(texts), chunk_table(["another"]))
        folder = tmp_path / name / "bm25"
        written.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert written[0] == written[1] != written[2]
    assert {"meta.json", ".managed.json"} < written[0].keys()
    assert len(written[0].keys() & written[2].keys()) > 2  # the other segment is the same


def test_tantivy_writes_beside_the_version_and_leaves_nothing_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reader may put a lock file into the folder it watches long after the commit."""
    written: list[Path] = []
    real = tantivy.Index

    class Recording:
        """What makes and opens indexes, and notes where they are made."""

        open = real.open

        def __new__(cls, schema: tantivy.Schema, path: str) -> tantivy.Index:
            written.append(Path(path))
            return real(schema, path=path)

    monkeypatch.setattr(bm25_index.tantivy, "Index", Recording)
    version = tmp_path / "version"
    version.mkdir()
    build_bm25(BundlePaths(version), chunk_table(["x"]))
    assert written
    assert not any(version in (path, *path.parents) for path in written)
    assert list(tmp_path.rglob("*.lock")) == []
    assert list(tmp_path.iterdir()) == [version]
