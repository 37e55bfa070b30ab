"""Learned sparse retrieval in a run: impacts of a repository's chunks, and the index of a staged version."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codequarry.pipelines.hard_links import link_all
from codequarry.pipelines.parts import Part, hashed, plan_parts, put_seal, sealed
from codequarry.pipelines.shards import Shard
from codequarry.pipelines.sparse_encoders import sparse_directories
from codequarry.pipelines.splade_build import SpladePlan, build_splade
from codequarry.pipelines.splade_store import open_impact_store
from codequarry.pipelines.text_indexes import put_encoder, texts_of
from codequarry.pipelines.tools import tool_versions
from codequarry.pipelines.vector_store import text_key
from codequarry.pipelines.warp_tokens import TEXT_COLUMNS, chunk_text
from codequarry.pipelines.workspace import Progress, repository_work, silent
from codequarry.schemas.encoder import EncoderSpec
from codequarry.schemas.errors import SourceError
from codequarry.schemas.layout import BundlePaths, BundleRoot
from codequarry.schemas.manifest import EncoderEntry, Manifest, SpladeEntry
from codequarry.schemas.mapped_index import ENCODER_FOLDER
from codequarry.schemas.settings import Settings
from codequarry.schemas.sparse_encoder import Impacts, SparseEncoder, read_step
from codequarry.schemas.tables import read_table

SPARSE = "sparse"
"""Seal of a part whose chunks' impacts are in the store."""
_SAVE_EVERY = 256


@dataclass(frozen=True, slots=True)
class SparseReport:
    """What the sparse stage did for a repository."""

    name: str
    chunks: int
    encoded: int
    """Distinct texts that went through the encoder."""
    fingerprint: str


def embed_sparse(name: str, settings: Settings, progress: Progress = silent) -> SparseReport:
    """Put the impacts of all chunks of a repository into the store; parts that were done are passed over.

    Raises SourceError: the chunk stage has not run. Otherwise as `sparse_directories`.
    """
    work = repository_work(settings.paths.work, name)
    folders = sparse_directories(settings)
    fingerprint = EncoderSpec.load(folders.documents).fingerprint
    chunks = encoded = 0
    for part in plan_parts(work, settings):
        key = _sparse_key(part, fingerprint)
        chunks += sum(counts["chunks"] for counts in part.chunked()["facts"]["languages"].values())
        if sealed(part.folder, SPARSE, key) is None:
            texts = [chunk_text(row) for row in read_table(part.table("chunks"), list(TEXT_COLUMNS)).to_pylist()]
            encoded += encode_missing(texts, folders.documents, settings, progress, what=f"{name}: sparse terms")
            put_seal(part.folder, SPARSE, key, [], {})
    return SparseReport(name, chunks, encoded, fingerprint)


def encode_missing(
    texts: Sequence[str], folder: Path, settings: Settings, progress: Progress = silent, *, what: str = "sparse terms"
) -> int:
    """See that the store holds the impacts of every text; returns how many were encoded.

    folder: of the encoder. what: said of the progress.

    Raises MissingExtraError: the encoder needs an extra. UnavailableError: the disk refuses.
    """
    by_key = {text_key(text): text for text in texts}
    keys = list(by_key)
    encoded = 0
    opened: SparseEncoder | None = None
    with open_impact_store(settings.paths.store, EncoderSpec.load(folder).fingerprint) as held:
        for start in range(0, len(keys), _SAVE_EVERY):
            part = keys[start : start + _SAVE_EVERY]
            known = held.get(part)
            missing = [key for key in part if key not in known]
            if missing:
                threads = settings.embedding.threads or os.cpu_count() or 1
                opened = opened or SparseEncoder.open(folder, threads=threads)
                found = opened.encode_documents([by_key[key] for key in missing])
                held.put(zip(missing, found, strict=True))
                encoded += len(missing)
            progress(what, start + len(part), len(keys))
    return encoded


def put_splade(
    paths: BundlePaths,
    plan: Sequence[Shard],
    settings: Settings,
    root: BundleRoot,
    held: Manifest | None,
    progress: Progress = silent,
) -> tuple[SpladeEntry, frozenset[str]]:
    """The index of a staged version, linked to CURRENT where that has the same.

    paths: of a version whose tables are written. plan: all its shards.

    Returns its entry, and the paths that are links.
    """
    folders = sparse_directories(settings)
    spec, queries = EncoderSpec.load(folders.documents), EncoderSpec.load(folders.queries)
    fingerprints = [spec.fingerprint, queries.fingerprint]
    key = hashed([tool_versions(), settings.splade.terms, fingerprints, [shard.key for shard in plan]])
    folder = paths.splade
    (folder / ENCODER_FOLDER).mkdir(parents=True)
    if held is not None and held.splade is not None and held.splade.key == key:
        same = [entry for entry in held.files if entry.path.startswith(f"{folder.name}/")]
        if link_all(root.version(held.version), paths, same):
            return held.splade, frozenset(entry.path for entry in same)
    linked = put_encoder(folders.queries, folder, paths, root, held)
    encode = partial(encode_missing, folder=folders.documents, settings=settings, progress=progress)
    ids, keys = texts_of(paths, plan, partial(encode, what="splade: sparse terms"))
    index = build_splade(
        folder,
        _stored(ids, keys, settings.paths.store, spec.fingerprint),
        SpladePlan(
            vocabulary=spec.dim,
            step=read_step(folders.documents),
            encoder=spec.fingerprint,
            query_encoder=queries.fingerprint,
            terms=settings.splade.terms,
            memory_mb=settings.splade.memory_mb,
        ),
        progress,
    )
    entry = SpladeEntry(
        key=key,
        documents=index.documents,
        postings=index.postings,
        terms=index.terms,
        queries="model" if spec == queries else "weights",
        query_encoder=queries.fingerprint,
        encoder=EncoderEntry(name=spec.name, fingerprint=spec.fingerprint, dim=spec.dim),
        license=spec.license,
    )
    return entry, linked


def _sparse_key(part: Part, fingerprint: str) -> str:
    return hashed([part.chunked()["files"]["chunks.parquet"], fingerprint])


def _stored(ids: NDArray[np.int64], keys: list[bytes], store: Path, fingerprint: str) -> Iterator[tuple[int, Impacts]]:
    """(chunk id, impacts) in the order given, a few hundred in memory at a time.

    Raises SourceError: impacts are gone since they were made.
    """
    with open_impact_store(store, fingerprint) as held:
        for start in range(0, len(keys), _SAVE_EVERY):
            part = keys[start : start + _SAVE_EVERY]
            known = held.get(list(dict.fromkeys(part)))
            for chunk_id, key in zip(ids[start : start + _SAVE_EVERY].tolist(), part, strict=True):
                if key not in known:
                    raise SourceError(
                        f"the impacts of chunk {chunk_id} are gone from the store", suggestion="run again"
                    )
                yield chunk_id, known[key]
