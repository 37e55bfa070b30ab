"""Small valid bundles straight from chunk rows, so that serving's tests need no pipeline."""

from __future__ import annotations

import hashlib
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import duckdb
import faiss
import numpy as np
import pyarrow as pa
import tantivy

from codequarry.schemas.bundle import tables
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot, Current
from codequarry.schemas.bundle.manifest import (
    Counts,
    EncoderEntry,
    FaissEntry,
    FileEntry,
    Manifest,
    SourceEntry,
    to_json,
)
from codequarry.schemas.bundle.text_pages import write_text_pages
from codequarry.schemas.catalog.views import OPEN_SQL, catalog_statements, set_bundle
from codequarry.schemas.ids import chunk_id
from codequarry.schemas.languages import language_of
from codequarry.serving.catalog.chunk_arrays import RowIndex
from codequarry.serving.catalog.explanation_facts import ChunkFacts
from codequarry.serving.encoders.spec import open_encoder
from codequarry.serving.files.compatibility import compatibility
from codequarry.serving.files.file_index import FileIndex, FileRow, card_text
from codequarry.serving.files.integrity import file_sha256, list_files
from codequarry.serving.text.analyzer import source_tokens, terms_of
from codequarry.serving.text.lexical import ID_FIELD, dense_text, field_texts, tantivy_schema
from codequarry.serving.text.stems import stem
from codequarry.serving.text.term_list import TERMS_FILE, packed_terms

VERSION = "20260101T000000Z-0123abcd"
CREATED = "2026-01-01T00:00:00+00:00"
NO_ENCODER = EncoderEntry(name="none", fingerprint="0" * 64, dim=16)


@dataclass(frozen=True)
class Piece:
    """One chunk to be."""

    path: str
    text: str
    qualified_name: str = ""
    symbols: tuple[str, ...] = ()
    repo: str = "quarry"
    kind: str = "function"
    start_line: int = 0
    start_byte: int = 0
    comment_percent: int = 0
    path_class: str = ""
    """By the path when empty: tests/ holds tests, the rest are sources."""
    id: int = field(init=False)

    def __post_init__(self) -> None:
        place = (self.repo, self.path, self.qualified_name, self.text.encode(), self.start_line)
        object.__setattr__(self, "id", chunk_id(*place))

    @property
    def lang(self) -> str:
        """As the census would say."""
        return language_of(self.path) or "text"


def write_bundle(
    root: Path,
    pieces: Iterable[Piece],
    *,
    encoder: Path | None = None,
    factory: str = "Flat",
    version: str = VERSION,
    commits: dict[str, str] | None = None,
    rows: Mapping[str, Sequence[dict[str, object]]] = {},
) -> BundlePaths:
    """Write a version and point CURRENT at it.

    encoder: directory of an exported encoder; without one the vectors are random and there is no ``encoder/``.
    commits: repository -> commit id; a '+' at the end marks it dirty.
    rows: of the tables of definitions, references and SCIP, by table; see `symbol_rows`.
    """
    chunks = sorted(pieces, key=lambda piece: piece.id)
    paths = BundleRoot(root).version(version)
    paths.tables.mkdir(parents=True)
    paths.bm25.mkdir()
    entry, vectors = _vectors(paths, chunks, encoder)
    _write_tables(paths, chunks, vectors, rows)
    exact = _write_faiss(paths, [piece.id for piece in chunks], vectors, factory)
    write_bm25(paths.bm25, chunks)
    write_catalog(paths, entry.dim)
    with duckdb.connect(str(paths.catalog), read_only=True) as connection:
        index = RowIndex.build(connection)
        index.write(paths.rows)
        write_text_pages(paths, index.chunks["shard"], index.chunks["text_bytes"])
        connection.execute(set_bundle(str(paths.path)))
        ChunkFacts.build(connection).write(paths.facts)
    _write_file_index(paths, chunks, entry.dim)
    seal(root, paths, chunks, entry, FaissEntry(factory=factory, exact=exact), commits or {})
    return paths


def in_file_order(chunks: Iterable[Piece]) -> list[Piece]:
    """The order in which the catalog holds chunks."""
    return sorted(chunks, key=lambda piece: (piece.repo, piece.path, piece.start_byte))


def write_catalog(paths: BundlePaths, dim: int) -> None:
    """Write ``catalog.duckdb`` of the version's tables, and ``open.sql``."""
    paths.open_sql.write_text(OPEN_SQL)
    with duckdb.connect() as connection:
        for statement in catalog_statements(str(paths.catalog), str(paths.path), dim):
            connection.execute(statement)


def seal(
    root: Path,
    paths: BundlePaths,
    chunks: Sequence[Piece],
    encoder: EncoderEntry,
    index: FaissEntry,
    commits: dict[str, str],
) -> None:
    """Write the manifest of whatever lies in the version's folder, and CURRENT."""
    names = [name for name in list_files(paths.path) if name != "manifest.json"]
    files = tuple(
        FileEntry(
            path=name,
            size_bytes=(paths.path / name).stat().st_size,
            sha256=file_sha256(paths.path / name),
            rows=len(chunks) if name.startswith("tables/embeddings") else None,
        )
        for name in names
    )
    sources = tuple(
        SourceEntry(
            name=repo,
            commit=commits.get(repo, "").removesuffix("+"),
            dirty=commits.get(repo, "+").endswith("+"),
            tree_sha256="0" * 64,
            files=len({piece.path for piece in chunks if piece.repo == repo}),
            chunks=sum(piece.repo == repo for piece in chunks),
            skipped={},
        )
        for repo in sorted({piece.repo for piece in chunks})
    )
    manifest = Manifest(
        version=paths.path.name,
        created=CREATED,
        digest="0" * 64,
        settings_sha256="0" * 64,
        tools={},
        sources=sources,
        encoder=encoder,
        faiss=index,
        counts=Counts(files=sum(source.files for source in sources), skipped_files=0, chunks=len(chunks)),
        compatibility=compatibility(encoder.fingerprint),
        files=files,
    )
    data = to_json(manifest)
    paths.manifest.write_bytes(data)
    current = Current(paths.path.name, hashlib.sha256(data).hexdigest())
    BundleRoot(root).current.write_text(current.line(), encoding="ascii")


def _write_file_index(paths: BundlePaths, chunks: Sequence[Piece], dim: int) -> None:
    found = sorted({(piece.repo, piece.path, piece.path_class) for piece in chunks})
    rows = [FileRow(row, repo, path, 0, 0) for row, (repo, path, _) in enumerate(found)]
    cards = [card_text(row.path, "", ()) for row in rows]
    opened = open_encoder(paths.encoder) if paths.encoder.exists() and cards else None
    vectors = np.zeros((len(rows), dim), np.float32) if opened is None else opened.encode_documents(cards)
    FileIndex.build(rows, vectors).write(paths.files)


def write_bm25(folder: Path, chunks: Sequence[Piece]) -> None:
    """Index the chunks with tantivy, one segment, and list the terms of their texts."""
    index = tantivy.Index(tantivy_schema(), path=str(folder))
    writer = index.writer(heap_size=50_000_000, num_threads=1)
    for piece in chunks:
        document = tantivy.Document()
        document.add_unsigned(ID_FIELD, piece.id)
        for name, terms in tokens_of(piece).items():
            tokens = [tantivy.Token(term, position, 0, 0) for term, position in terms]
            document.add_pre_tokenized_text(name, tantivy.PreTokenizedString("", tokens))
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()
    for lock in folder.glob(".tantivy-*.lock"):
        lock.unlink()
    terms = {term for piece in chunks for term, _ in placed_terms(piece.text)}
    (folder / TERMS_FILE).write_bytes(packed_terms(terms))


def tokens_of(piece: Piece):
    """The index terms of a chunk by field."""
    texts = field_texts(path=piece.path, symbols=piece.symbols, qualified_name=piece.qualified_name, text=piece.text)
    return {field: placed_terms(text) for field, text in texts.items()}


def placed_terms(text: str) -> list[tuple[str, int]]:
    """The index terms of a text with positions: its words, and a position later the parts and stems of all."""
    words, others = [], []
    for token in source_tokens(text):
        word, *parts = terms_of(token)
        words.append(word)
        others += [term for term in dict.fromkeys([*parts, *map(stem, parts or [word])]) if term != word]
    return [*zip(words, count()), *zip(others, count(len(words) + 1))]


def dense_of(piece: Piece) -> str:
    """What the dense encoder reads of a chunk."""
    return dense_text(
        path=piece.path, qualified_name=piece.qualified_name, symbols=piece.symbols, signature="", text=piece.text
    )


def _vectors(paths: BundlePaths, chunks: Sequence[Piece], encoder: Path | None) -> tuple[EncoderEntry, np.ndarray]:
    if encoder is None:
        random = np.random.default_rng(0).standard_normal((len(chunks), NO_ENCODER.dim)).astype(np.float32)
        return NO_ENCODER, random / np.linalg.norm(random, axis=1, keepdims=True)
    shutil.copytree(encoder, paths.encoder)
    opened = open_encoder(paths.encoder)
    texts = [dense_of(one) for one in chunks]
    entry = EncoderEntry(name=opened.spec.name, fingerprint=opened.spec.fingerprint, dim=opened.spec.dim)
    return entry, opened.encode_documents(texts)


def _write_tables(
    paths: BundlePaths, chunks: Sequence[Piece], vectors: np.ndarray, symbols: Mapping[str, Sequence[dict[str, object]]]
) -> None:
    covered = sorted({(piece.repo, piece.path, piece.lang) for piece in chunks if piece.lang == "go"})
    documents = [
        {"repo": repo, "path": path, "lang": lang, "indexer": "scip-go 1", "position_encoding": "utf-8"}
        | dict.fromkeys(("symbols", "occurrences", "dropped"), 0)
        for repo, path, lang in covered
    ]
    tables.write_table(
        paths.table("scip_documents"), pa.Table.from_pylist(documents, tables.SCIP_DOCUMENTS), tables.SCIP_DOCUMENTS
    )
    leaves = [
        {"repo": piece.repo, "path": piece.path, "chunk_id": piece.id, "kind": "identifier", "count": 1}
        for piece in chunks
        if piece.kind != "text"
    ]
    rows_of = {"cst_nodes": leaves, **symbols}
    by_rows = ("scip_symbols", "scip_occurrences", "ast_nodes", "ast_members", "ast_references", "cst_nodes", "modules")
    for name in by_rows:
        table = pa.Table.from_pylist(list(rows_of.get(name, ())), tables.SCHEMAS[name])
        tables.write_table(paths.table(name), table, tables.SCHEMAS[name])
    rows = [
        {
            "chunk_id": piece.id,
            "repo": piece.repo,
            "path": piece.path,
            "lang": piece.lang,
            "kind": piece.kind,
            "qualified_name": piece.qualified_name,
            "symbols": list(piece.symbols),
            "signature": "",
            "doc": "",
            "start_byte": piece.start_byte,
            "end_byte": piece.start_byte + len(piece.text.encode()),
            "start_line": piece.start_line,
            "end_line": piece.start_line + piece.text.count("\n") - piece.text.endswith("\n"),
            "comment_percent": piece.comment_percent,
            "content_sha256": hashlib.sha256(piece.text.encode()).hexdigest(),
            "text": piece.text,
        }
        for piece in in_file_order(chunks)
    ]
    texts: dict[tuple[str, str], str] = defaultdict(str)
    for piece in in_file_order(chunks):
        texts[piece.repo, piece.path] += piece.text
    files = [
        {
            "repo": repo,
            "path": path,
            "lang": language_of(path) or "",
            "path_class": path_class or ("test" if path.startswith("tests/") else "source"),
            "size_bytes": 0,
            "lines": 0,
            "sha256": hashlib.sha256(texts[repo, path].encode()).hexdigest(),
            "encoding": "utf-8",
            "skip_reason": "",
            "parsed": True,
            "syntax_errors": False,
        }
        for repo, path, path_class in sorted({(piece.repo, piece.path, piece.path_class) for piece in chunks})
    ]
    tables.write_table(paths.table("chunks"), pa.Table.from_pylist(rows, tables.CHUNKS), tables.CHUNKS, paged="text")
    tables.write_table(paths.table("files"), pa.Table.from_pylist(files, tables.FILES), tables.FILES)
    tables.write_vectors(paths.table("embeddings"), np.array([piece.id for piece in chunks], np.int64), vectors)


def definition_row(piece: Piece, symbol: str) -> dict[str, object]:
    """The row of ``ast_nodes`` of a definition that is the whole piece."""
    parent, _, name = symbol.rpartition(".")
    end_line = piece.start_line + piece.text.count("\n") - piece.text.endswith("\n")
    return {
        "repo": piece.repo,
        "path": piece.path,
        "qualified_name": symbol,
        "name": name,
        "kind": piece.kind,
        "start_byte": piece.start_byte,
        "end_byte": piece.start_byte + len(piece.text.encode()),
        "start_line": piece.start_line,
        "end_line": end_line,
        "name_start_byte": piece.start_byte,
        "name_start_line": piece.start_line,
        "name_start_column": 0,
        "signature": "",
        "doc": "",
        "parent": parent,
        "chunk_id": piece.id,
    }


def _write_faiss(paths: BundlePaths, ids: list[int], vectors: np.ndarray, factory: str) -> bool:
    if factory != "Flat":
        index = mapped_index(np.array(ids, np.int64), vectors, factory)
        faiss.write_index(index, str(paths.path / "faiss.index"))
    idmap = [{"faiss_row": row, "chunk_id": one} for row, one in enumerate(ids)]
    tables.write_table(paths.faiss_idmap, pa.Table.from_pylist(idmap, tables.FAISS_IDMAP), tables.FAISS_IDMAP)
    return factory == "Flat"


def mapped_index(ids: np.ndarray, vectors: np.ndarray, factory: str) -> faiss.IndexIDMap2:
    """An index behind an id map. ids: (n,) int64. vectors: (n, d) float32, unit norm."""
    base = faiss.index_factory(vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
    base.train(vectors)
    index = faiss.IndexIDMap2(base)
    index.add_with_ids(vectors, ids)
    base.this.own(False)
    index.own_fields = True
    return index
