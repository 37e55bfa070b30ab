"""Learned sparse retrieval in a run: impacts of a repository's chunks, and the index of a staged version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from codequarry.pipelines.embed.sparse_encoders import sparse_directories
from codequarry.pipelines.indexes.splade.build import SpladePlan, build_splade
from codequarry.pipelines.indexes.splade.impacts import open_impact_store
from codequarry.pipelines.indexes.text_indexes import (
    encode_parts,
    fill_store,
    link_index,
    put_encoder,
    stored,
    texts_of,
)
from codequarry.pipelines.store.library_versions import tool_versions
from codequarry.pipelines.store.parts import Part, Shard, hashed, plan_parts
from codequarry.pipelines.store.workspace import Progress, repository_work, silent
from codequarry.schemas.bundle.index_spec import ENCODER_FOLDER
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import EncoderEntry, Manifest, SpladeEntry
from codequarry.schemas.resources import available_cores
from codequarry.schemas.settings.load import Settings
from codequarry.serving.encoders.sparse import SparseEncoder, read_step
from codequarry.serving.encoders.spec import EncoderSpec

SPARSE = "sparse"
"""Completion marker of a part whose chunks' impacts are in the store."""


@dataclass(frozen=True, slots=True)
class SparseReport:
    """Results of the sparse stage for a repository."""

    name: str
    chunks: int
    encoded: int
    """Distinct texts that went through the encoder."""
    fingerprint: str


def embed_sparse(name: str, settings: Settings, progress: Progress = silent) -> SparseReport:
    """Put the impacts of all chunks of a repository into the store; parts that are done are skipped.

    Args:
        name: Name of the repository.
        settings: Settings of the run.
        progress: Told of the texts encoded.

    Returns:
        Counts of chunks and of encoded texts.

    Raises:
        SourceError: The chunk stage has not run.
        CodequarryError: As `sparse_directories` does.
    """
    work = repository_work(settings.paths.work, name)
    folders = sparse_directories(settings)
    fingerprint = EncoderSpec.load(folders.documents).fingerprint
    encode = partial(
        encode_missing, folder=folders.documents, settings=settings, progress=progress, what=f"{name}: sparse terms"
    )
    parts = plan_parts(work, settings)
    chunks, encoded = encode_parts(parts, SPARSE, partial(_sparse_key, fingerprint=fingerprint), encode, settings)
    return SparseReport(name, chunks, encoded, fingerprint)


def encode_missing(
    texts: Sequence[str], folder: Path, settings: Settings, progress: Progress = silent, *, what: str = "sparse terms"
) -> int:
    """Make sure that the store holds the impacts of every text.

    Args:
        texts: Texts to encode.
        folder: Folder of the encoder.
        settings: Settings of the run.
        progress: Told of the texts encoded.
        what: Name of the work in the progress.

    Returns:
        Number of texts that were encoded.

    Raises:
        MissingExtraError: The encoder needs an extra.
        UnavailableError: The disk refuses.
    """
    threads = settings.embedding.threads or available_cores()
    with open_impact_store(settings.paths.store, EncoderSpec.load(folder).fingerprint) as held:
        return fill_store(texts, held, partial(SparseEncoder.open, folder, threads=threads), progress, what)


def put_splade(
    paths: BundlePaths,
    plan: Sequence[Shard],
    settings: Settings,
    root: BundleRoot,
    held: Manifest | None,
    progress: Progress = silent,
) -> tuple[SpladeEntry, frozenset[str]]:
    """Write the index of a staged version, or link it to CURRENT when that has the same.

    Args:
        paths: Paths of a version whose tables are written.
        plan: All its shards.
        settings: Settings of the run.
        root: Bundle root.
        held: Manifest of CURRENT; None when there is none.
        progress: Told of the texts encoded and the postings written.

    Returns:
        The index's entry, and the paths that are links.
    """
    folders = sparse_directories(settings)
    spec, queries = EncoderSpec.load(folders.documents), EncoderSpec.load(folders.queries)
    fingerprints = [spec.fingerprint, queries.fingerprint]
    key = hashed([tool_versions(), settings.splade.terms, fingerprints, [shard.key for shard in plan]])
    folder = paths.splade
    (folder / ENCODER_FOLDER).mkdir(parents=True)
    if held is not None and held.splade is not None and held.splade.key == key:
        links = link_index(folder, paths, root, held)
        if links is not None:
            return held.splade, links
    linked = put_encoder(folders.queries, folder, paths, root, held)
    encode = partial(encode_missing, folder=folders.documents, settings=settings, progress=progress)
    ids, keys = texts_of(paths, plan, partial(encode, what="splade: sparse terms"))
    asked = SpladePlan(
        vocabulary=spec.dim,
        step=read_step(folders.documents),
        encoder=spec.fingerprint,
        query_encoder=queries.fingerprint,
        terms=settings.splade.terms,
        memory_mb=settings.splade.memory_mb,
    )
    with open_impact_store(settings.paths.store, spec.fingerprint) as impacts:
        index = build_splade(folder, stored(ids, keys, impacts, "impacts"), asked, progress)
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
