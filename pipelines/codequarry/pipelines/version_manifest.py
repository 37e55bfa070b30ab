"""What goes into the manifest of a staged version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

import pyarrow.parquet as pq

from codequarry.pipelines.scip import read_scip_entries
from codequarry.pipelines.snapshot import read_snapshot
from codequarry.pipelines.tools import tools_in_use
from codequarry.pipelines.workspace import RepositoryWork
from codequarry.schemas.compatibility import compatibility
from codequarry.schemas.encoder import TOKENIZER_FILE, EncoderSpec
from codequarry.schemas.integrity import list_files
from codequarry.schemas.known_files import known_sha256
from codequarry.schemas.layout import BundlePaths, BundleRoot
from codequarry.schemas.manifest import (
    Counts,
    EncoderEntry,
    FileEntry,
    LegEntry,
    Manifest,
    ModelEntry,
    ShardEntry,
    SourceEntry,
    SpladeEntry,
    WarpEntry,
    content_digest,
)
from codequarry.schemas.settings import Settings
from codequarry.schemas.tables import schema_hash


def file_entries(
    paths: BundlePaths, held: Manifest | None, linked: Collection[str], catalog_digest: str
) -> tuple[FileEntry, ...]:
    """Every file of a version by path.

    linked: paths that are links to files of ``held``, whose entries they take over.
    """
    known = {entry.path: entry for entry in (held.files if held is not None else ()) if entry.path in linked}
    digests = {paths.catalog.name: catalog_digest}
    return tuple(known.get(name) or _file_entry(paths, name, digests.get(name)) for name in list_files(paths.path))


def source_entry(work: RepositoryWork, chunks: int) -> SourceEntry:
    """A repository as its stages read it. Raises SourceError: one has not run."""
    snapshot = read_snapshot(work)
    return SourceEntry(
        name=snapshot.name,
        url=snapshot.url,
        ref=snapshot.ref,
        commit=snapshot.commit,
        dirty=snapshot.dirty,
        tree_sha256=snapshot.tree_sha256,
        files=snapshot.files,
        chunks=chunks,
        classes=snapshot.classes,
        skipped=snapshot.skipped,
        secrets=snapshot.secrets,
        scip=read_scip_entries(work),
    )


def encoder_entry(spec: EncoderSpec) -> EncoderEntry:
    """An encoder as the manifest describes it."""
    weights = sorted((name, sha256) for name, sha256 in spec.sha256.items() if name != TOKENIZER_FILE)
    model = ModelEntry(
        kind=spec.kind,
        model=spec.model or "",
        revision=spec.revision or "",
        license=spec.license,
        max_tokens=spec.max_tokens,
        query_prefix=spec.query_prefix,
        document_prefix=spec.document_prefix,
        weights_sha256=hashlib.sha256(json.dumps(weights).encode()).hexdigest(),
        tokenizer_sha256=spec.sha256.get(TOKENIZER_FILE, ""),
    )
    return EncoderEntry(name=spec.name, fingerprint=spec.fingerprint, dim=spec.dim, model=model)


def version_manifest(
    root: BundleRoot,
    sources: tuple[SourceEntry, ...],
    legs: Sequence[LegEntry],
    shards: tuple[ShardEntry, ...],
    files: tuple[FileEntry, ...],
    settings: Settings,
    warp: WarpEntry | None = None,
    splade: SpladeEntry | None = None,
) -> Manifest:
    """The manifest of a version of now. legs: the dense ones, the first one first."""
    encoders = [leg.encoder for leg in legs]
    settings_sha256 = settings.index_hash()
    digest = content_digest(sources=sources, settings_sha256=settings_sha256, encoders=encoders, files=files)
    created = datetime.now(UTC).replace(microsecond=0)
    return Manifest(
        version=_free_name(root, f"{created:%Y%m%dT%H%M%SZ}-{digest[:8]}"),
        created=created.isoformat().replace("+00:00", "Z"),
        digest=digest,
        settings_sha256=settings_sha256,
        tools=tools_in_use(settings),
        sources=sources,
        encoder=legs[0].encoder,
        faiss=legs[0].faiss,
        more_legs=tuple(legs[1:]),
        warp=warp,
        splade=splade,
        counts=Counts(
            files=sum(source.files for source in sources),
            skipped_files=sum(sum(source.skipped.values()) for source in sources),
            chunks=sum(shard.chunks for shard in shards),
        ),
        shards=shards,
        compatibility=compatibility(*(encoder.fingerprint for encoder in encoders)),
        files=files,
    )


def _free_name(root: BundleRoot, wanted: str) -> str:
    taken = set(root.version_names())
    return next(name for name in (wanted, *(f"{wanted}-{n}" for n in range(2, 10_000))) if name not in taken)


def _file_entry(paths: BundlePaths, name: str, content_sha256: str | None) -> FileEntry:
    file = paths.path / name
    rows = schema = None
    if name.endswith(".parquet"):
        with pq.ParquetFile(file) as parquet:
            rows, schema = parquet.metadata.num_rows, schema_hash(parquet.schema_arrow)
    return FileEntry(
        path=name,
        size_bytes=file.stat().st_size,
        sha256=known_sha256(file),
        content_sha256=content_sha256,
        rows=rows,
        schema_sha256=schema,
    )
