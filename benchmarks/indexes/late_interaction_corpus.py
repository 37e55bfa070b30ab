"""Token vectors of real chunks, and questions about them: made once, kept below the benchmarks' folder."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.corpus import HOME, package_folder
from codequarry.pipelines.embed.export.minilm_tokens import export_minilm_tokens
from codequarry.pipelines.indexes.array_files import ArrayWriter
from codequarry.pipelines.indexes.text_indexes import TEXT_COLUMNS, chunk_text
from codequarry.pipelines.sources.snapshot import snapshot_repository
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.parts import plan_parts
from codequarry.pipelines.store.workspace import repository_work
from codequarry.pipelines.syntax.stage import chunk_repository
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.errors import IntegrityError
from codequarry.schemas.settings.load import PathsSettings, RepositorySettings, Settings, SourcesSettings
from codequarry.serving.encoders.spec import EncoderSpec
from codequarry.serving.encoders.tokens import TokenEncoder

PACKAGES = ("sqlalchemy", "fastmcp", "hypothesis", "mcp")
QUERIES = 100
_HOME = HOME / "late_interaction"


@dataclass(frozen=True)
class TokenCorpus:
    """Chunks by id, with the float vectors of their tokens."""

    encoder: TokenEncoder
    chunk_ids: np.ndarray
    """(n,) int64, ascending."""
    offsets: np.ndarray
    """(n + 1,) int64."""
    vectors: np.ndarray
    """(N, d) float16, mapped: unit vectors of the encoder."""
    queries: list[np.ndarray]
    """(t, d) float32 each: first sentences of documentation."""
    long_queries: list[np.ndarray]
    """(32, d) float32 each."""

    def codes(self, document: int) -> np.ndarray:
        """(t, d) int8 of a chunk."""
        own = self.vectors[self.offsets[document] : self.offsets[document + 1]]
        return self.encoder.codes(own.astype(np.float32))

    def first(self, documents: int) -> TokenCorpus:
        """A smaller corpus: chunks spread evenly over this one, with the same questions."""
        kept = np.unique(np.linspace(0, len(self.chunk_ids) - 1, documents).astype(np.int64))
        sizes = np.diff(self.offsets)[kept]
        bounds = self.offsets.tolist()
        rows = np.concatenate([np.arange(bounds[one], bounds[one + 1]) for one in kept.tolist()])
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return TokenCorpus(
            self.encoder, self.chunk_ids[kept], offsets, self.vectors[rows], self.queries, self.long_queries
        )


def load(*, punctuation: bool = False) -> TokenCorpus:
    """The corpus; chunked and encoded on first use, which takes ten minutes of one core."""
    encoder = TokenEncoder.open(_encoder(), punctuation=punctuation)
    chunks = _chunks()
    texts = [chunk_text(row) for row in chunks.select(TEXT_COLUMNS).to_pylist()]
    key = hashlib.sha256("\0".join([encoder.spec.fingerprint, str(punctuation), *texts]).encode()).hexdigest()[:16]
    folder = _HOME / f"vectors-{key}"
    if not (folder / "offsets.npy").is_file():
        _encode(folder, texts, encoder)
    documentation = [doc for doc in chunks["doc"].to_pylist() if len(doc.split()) >= 5]
    step = max(1, len(documentation) // QUERIES)
    asked = documentation[::step][:QUERIES]
    long = sorted(documentation, key=len, reverse=True)[: 20 * 40 : 20]
    return TokenCorpus(
        encoder,
        chunks["chunk_id"].to_numpy(),
        np.load(folder / "offsets.npy"),
        np.load(folder / "vectors.npy", mmap_mode="r"),
        [encoder.encode_query(_sentence(doc)).vectors for doc in asked],
        [vectors for vectors in (encoder.encode_query(doc).vectors for doc in long) if len(vectors) == 32],
    )


def _sentence(documentation: str) -> str:
    return documentation.split("\n\n")[0].split(". ")[0].replace("\n", " ")


def _encoder() -> Path:
    folder = _HOME / "encoder"
    try:
        EncoderSpec.load(folder).verify(folder)
    except IntegrityError:
        export_minilm_tokens(folder)
    return folder


def _chunks() -> pa.Table:
    """Chunks of the packages by id."""
    repositories = tuple(RepositorySettings(path=package_folder(name), name=name) for name in PACKAGES)
    settings = Settings(
        paths=PathsSettings(store=_HOME / "store", work=_HOME / "work"),
        sources=SourcesSettings(repositories=repositories),
    )
    tables: list[pa.Table] = []
    for name, repository in repositories_by_name(settings.sources.repositories).items():
        snapshot_repository(repository, settings)
        chunk_repository(name, settings)
        parts = plan_parts(repository_work(settings.paths.work, name), settings)
        tables += [read_table(part.table("chunks"), ["chunk_id", "doc", *TEXT_COLUMNS]) for part in parts]
    return pa.concat_tables(tables).sort_by("chunk_id").combine_chunks()


def _encode(folder: Path, texts: list[str], encoder: TokenEncoder) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    sizes: list[int] = []
    with ArrayWriter(folder / "vectors.npy", np.dtype("<f2"), (encoder.spec.dim,)) as writer:
        for done, text in enumerate(texts):
            vectors = encoder.document_vectors(text)
            sizes.append(len(vectors))
            writer.write(vectors.astype(np.float16))
            if done % 1000 == 0:
                print(f"encoding: {done} of {len(texts)} chunks", flush=True)
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(sizes)]))
