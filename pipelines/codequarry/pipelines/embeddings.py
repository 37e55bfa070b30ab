"""Stage 5: chunks become vectors, through the content-addressed store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from codequarry.pipelines import minilm
from codequarry.pipelines.vector_store import Vector, open_vector_store, text_key
from codequarry.pipelines.workspace import Progress, exclusive, replacing, repository_work, silent
from codequarry.schemas.encoder import OnnxEncoder
from codequarry.schemas.errors import IntegrityError, UnavailableError
from codequarry.schemas.integrity import file_sha256
from codequarry.schemas.lexical import dense_text
from codequarry.schemas.settings import Settings
from codequarry.schemas.tables import embeddings_schema, write_table

_SAVE_EVERY = 256
ENCODER_KEY = "encoder"
"""Key of the encoder's fingerprint in the metadata of ``embeddings.parquet``."""


@dataclass(frozen=True, slots=True)
class EmbeddingReport:
    """What the embedding stage did for a repository."""

    name: str
    vectors: int
    embedded: int
    """Distinct texts that went through the encoder."""
    reused: int
    """Vectors found in the store, or shared by chunks with the same text."""
    dim: int
    fingerprint: str


def encoder_directory(settings: Settings) -> Path:
    """The exported encoder of the settings, exported on first use and whenever the stored one is damaged."""
    embedding = settings.embedding
    # The exporter's own code names the folder: an export of older code is another encoder.
    exporter = file_sha256(Path(minilm.__file__))[:12]
    folder = settings.paths.store / "encoders" / f"{embedding.model}-{embedding.max_tokens}-{exporter}"
    with exclusive(folder.with_name(f".{folder.name}.lock"), "exporting the encoder", wait=True):
        try:
            OnnxEncoder.open(folder)
        except IntegrityError:
            _export(folder, embedding.max_tokens)
    return folder


def _export(folder: Path, max_tokens: int) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        minilm.export_minilm(folder, max_tokens=max_tokens)
    except OSError as error:
        raise UnavailableError(
            f"the encoder cannot be written to {folder}: {error.strerror or error}",
            suggestion="free disk space or check permissions, then run again",
        ) from error


def embed_repository(name: str, settings: Settings, progress: Progress = silent) -> EmbeddingReport:
    """Write ``embeddings.parquet``: one unit-norm float32 vector per chunk, in chunk-table order.

    Finished vectors are kept every few hundred texts, so that a killed run resumes where it stopped.

    Raises SourceError: the chunk stage has not run.
    """
    work = repository_work(settings.paths.work, name)
    parts = ["path", "qualified_name", "symbols", "signature", "text"]
    chunks = pq.read_table(work.require(work.table("chunks"), "chunk"), columns=["chunk_id", *parts])
    texts = [dense_text(**row) for row in chunks.select(parts).to_pylist()]
    encoder = OnnxEncoder.open(encoder_directory(settings), threads=settings.embedding.threads or os.cpu_count() or 1)
    keys = [text_key(text) for text in texts]
    with open_vector_store(settings.paths.store / "vectors", encoder.fingerprint, encoder.dim) as store:
        known = store.get(list(dict.fromkeys(keys)))
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        for entries in _encoded(encoder, missing, name, progress):
            store.put(entries)
            known.update(entries)
    vectors = np.stack([known[key] for key in keys])
    schema = embeddings_schema(encoder.dim).with_metadata({ENCODER_KEY: encoder.fingerprint})
    flat = pa.array(vectors.reshape(-1), pa.float32())
    table = pa.table([chunks["chunk_id"], _fixed(flat, encoder.dim)], schema=schema)
    with replacing(work.table("embeddings")) as temporary:
        write_table(temporary, table, schema)
    return EmbeddingReport(name, len(keys), len(missing), len(keys) - len(missing), encoder.dim, encoder.fingerprint)


def _fixed(flat: pa.Array, dim: int) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(flat, dim)


def _encoded(
    encoder: OnnxEncoder, missing: dict[bytes, str], name: str, progress: Progress
) -> Iterator[list[tuple[bytes, Vector]]]:
    items = list(missing.items())
    for start in range(0, len(items), _SAVE_EVERY):
        part = items[start : start + _SAVE_EVERY]
        vectors = encoder.encode_documents([text for _, text in part])
        yield [(key, vector) for (key, _), vector in zip(part, vectors, strict=True)]
        progress(f"{name}: embedding", start + len(part), len(items))
