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

from codequarry.pipelines import bm25_index
from codequarry.pipelines.bm25_index import build_bm25
from codequarry.pipelines.faiss_index import build_faiss
from codequarry.schemas.layout import BundlePaths
from codequarry.schemas.lexical import FIELD_BOOSTS, ID_FIELD, field_tokens
from codequarry.schemas.tables import CHUNKS


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
    entry = build_faiss(paths, ids, vectors, factory)
    assert (entry.factory, entry.exact) == (factory, exact)
    index = faiss.read_index(str(paths.faiss_index), faiss.IO_FLAG_MMAP_IFC)
    queries = unit_vectors(50, 32, seed=1)
    _, found = index.search(queries, 10)
    expected = ids[np.argsort(-(queries @ vectors.T), axis=1)[:, :10]]
    recall = np.mean([len(set(one) & set(two)) / 10 for one, two in zip(found, expected, strict=True)])
    assert recall >= floor
    idmap = pq.read_table(paths.faiss_idmap)
    assert idmap["faiss_row"].to_pylist() == list(range(700))
    assert idmap["chunk_id"].to_pylist() == ids.tolist()
    assert paths.vectors.exists() != exact
    if not exact:
        np.testing.assert_array_equal(np.load(paths.vectors, allow_pickle=False), vectors)


@pytest.mark.parametrize("factory", ["Flat", "HNSW32,SQ8", "IVF16,SQ8"])
def test_the_same_vectors_give_the_same_bytes(tmp_path: Path, factory: str) -> None:
    built = []
    for name in ("one", "two"):
        paths = BundlePaths(tmp_path / name)
        paths.path.mkdir()
        build_faiss(paths, ids_for(900), unit_vectors(900, 16), factory)
        built.append(paths.faiss_index.read_bytes())
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
        **{name: [0] * len(texts) for name in ("start_byte", "end_byte", "start_line", "end_line")},
    }
    return pa.table({name: rows[name] for name in CHUNKS.names}, schema=CHUNKS)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.text("abAB_ .0\n", max_size=40), min_size=1, max_size=12))
def test_bm25_holds_exactly_the_analyzed_tokens(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    paths = BundlePaths(tmp_path_factory.mktemp("bundle"))
    chunks = chunk_table(texts)
    report = build_bm25(paths, chunks)
    index = tantivy.Index.open(str(paths.bm25))
    searcher = index.searcher()
    assert (report.documents, searcher.num_docs, searcher.num_segments) == (len(texts), len(texts), 1)
    expected: dict[tuple[str, str], set[int]] = {}
    for row in chunks.to_pylist():
        tokens = field_tokens(
            path=row["path"], symbols=row["symbols"], qualified_name=row["qualified_name"], text=row["text"]
        )
        assert tokens.keys() == FIELD_BOOSTS.keys()
        for field, terms in tokens.items():
            for term in terms:
                expected.setdefault((field, term.text), set()).add(row["chunk_id"])
    for (field, term), ids in expected.items():
        hits = searcher.search(tantivy.Query.term_query(index.schema, field, term), limit=100).hits
        assert set(searcher.fast_field_values(ID_FIELD, [address for _, address in hits])) == ids


def test_the_content_digest_follows_the_tokens_not_the_files(tmp_path: Path) -> None:
    digests = []
    for name, texts in {"one": ["open file"], "two": ["open file"], "three": ["open files"]}.items():
        (tmp_path / name).mkdir()
        digests.append(build_bm25(BundlePaths(tmp_path / name), chunk_table(texts)).content_sha256)
    assert digests[0] == digests[1] != digests[2]


def test_tantivy_writes_beside_the_version_and_leaves_nothing_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reader may put a lock file into the folder it watches long after the commit."""
    written: list[Path] = []
    real = tantivy.Index

    def recording(schema: tantivy.Schema, path: str) -> tantivy.Index:
        written.append(Path(path))
        return real(schema, path=path)

    monkeypatch.setattr(bm25_index.tantivy, "Index", recording)
    version = tmp_path / "version"
    version.mkdir()
    build_bm25(BundlePaths(version), chunk_table(["x"]))
    assert written
    assert not any(version in (path, *path.parents) for path in written)
    assert list(tmp_path.rglob("*.lock")) == []
    assert list(tmp_path.iterdir()) == [version]
