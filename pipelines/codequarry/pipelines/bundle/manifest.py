"""The manifest of a staged version: its entries, and the decision that CURRENT holds already what a run would build."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

import pyarrow.parquet as pq

from codequarry.pipelines.embed.encoders import encoder_libraries, same_encoders
from codequarry.pipelines.embed.sparse_encoders import sparse_fingerprints
from codequarry.pipelines.embed.token_encoders import token_fingerprint
from codequarry.pipelines.indexes.ranking_profile import profile_sha256
from codequarry.pipelines.scip.given import given_files, given_identity
from codequarry.pipelines.scip.runner import indexer_versions
from codequarry.pipelines.scip.stage import read_scip_entries
from codequarry.pipelines.sources.snapshot import Snapshot, read_snapshot
from codequarry.pipelines.store.library_versions import SCANNER, library_version, scanner_version, tool_versions
from codequarry.pipelines.store.workspace import RepositoryWork
from codequarry.schemas.bundle.layout import RANKING_FILE, BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import (
    Counts,
    FileEntry,
    LegEntry,
    Manifest,
    ShardEntry,
    SourceEntry,
    SpladeEntry,
    WarpEntry,
    content_digest,
)
from codequarry.schemas.bundle.tables import schema_hash
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.compatibility import compatibility
from codequarry.serving.files.integrity import file_sha256, list_files
from codequarry.serving.files.version_order import next_sequence


def file_entries(
    paths: BundlePaths, held: Manifest | None, linked: Collection[str], catalog_digest: str
) -> tuple[FileEntry, ...]:
    """Return the entry of every file of a version by path.

    Args:
        paths: Paths of the version.
        held: Manifest of CURRENT; None when there is none.
        linked: Paths that are links to files of ``held``, whose entries they take over.
        catalog_digest: Digest of the catalog's contents.

    Returns:
        The entries.
    """
    known = {entry.path: entry for entry in (held.files if held is not None else ()) if entry.path in linked}
    digests = {paths.catalog.name: catalog_digest}
    return tuple(known.get(name) or _file_entry(paths, name, digests.get(name)) for name in list_files(paths.path))


def source_entry(work: RepositoryWork, chunks: int) -> SourceEntry:
    """Return the entry of a repository as its stages read it.

    Args:
        work: Work folder of the repository.
        chunks: Number of its chunks.

    Returns:
        The entry.

    Raises:
        SourceError: A stage has not run.
    """
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
    """Return the manifest of a version that is built now.

    Args:
        root: Bundle root.
        sources: Entries of the repositories.
        legs: Entries of the dense indexes, the first one first.
        shards: Entries of the shards.
        files: Entries of the files.
        settings: Settings of the run.
        warp: Entry of the late-interaction index.
        splade: Entry of the learned sparse index.

    Returns:
        The manifest.
    """
    encoders = [leg.encoder for leg in legs]
    settings_sha256 = settings.index_hash()
    digest = content_digest(sources=sources, settings_sha256=settings_sha256, encoders=encoders, files=files)
    created = time_of_build()
    return Manifest(
        version=_free_name(root, f"{created:%Y%m%dT%H%M%SZ}-{digest[:8]}"),
        created=created.isoformat().replace("+00:00", "Z"),
        sequence=next_sequence(root, created),
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


def time_of_build() -> datetime:
    """Return the current second, in UTC."""
    return datetime.now(UTC).replace(microsecond=0)


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
        sha256=file_sha256(file),
        content_sha256=content_sha256,
        rows=rows,
        schema_sha256=schema,
    )


def tools_in_use(settings: Settings) -> dict[str, str]:
    """Return ``tool_versions``, the encoders' libraries, the scanner, and the SCIP indexers that a run would start."""
    of_encoders = {name: library_version(name) for name in encoder_libraries(settings)}
    scanner = {SCANNER: scanner_version()} if settings.secrets.scan else {}
    return {**tool_versions(), **of_encoders, **scanner, **indexer_versions(settings)}


def is_current(current: Manifest, snapshots: tuple[Snapshot, ...], settings: Settings) -> bool:
    """Return whether the same sources, read with the same settings and tools, made this version."""
    held = {source.name: (_identity(source), _list_given_indexes(source)) for source in current.sources}
    read = {
        snapshot.name: (_identity(snapshot), given_identity(given_files(snapshot.name, settings)))
        for snapshot in snapshots
    }
    made_alike = current.settings_sha256 == settings.index_hash() and current.tools == tools_in_use(settings)
    ranked_alike = (RANKING_FILE, profile_sha256(settings)) in {(entry.path, entry.sha256) for entry in current.files}
    return (
        held == read
        and made_alike
        and ranked_alike
        and same_encoders(current, settings)
        and _same_tokens(current, settings)
        and _same_sparse(current, settings)
    )


def _same_tokens(current: Manifest, settings: Settings) -> bool:
    """Return whether the named model of the settings made a version's late-interaction index.

    Without a name it is MiniLM, whose contents settings and tools decide.
    """
    if not (settings.late_interaction and settings.warp.model):
        return True
    return current.warp is not None and current.warp.encoder.fingerprint == token_fingerprint(settings)


def _same_sparse(current: Manifest, settings: Settings) -> bool:
    """Return whether the encoders of the settings made a version's learned sparse index."""
    held = current.splade
    made = None if held is None else (held.encoder.fingerprint, held.query_encoder)
    return made == (sparse_fingerprints(settings) if settings.learned_sparse else None)


def _identity(source: SourceEntry | Snapshot) -> tuple[object, ...]:
    return (
        source.url,
        source.ref,
        source.commit,
        source.dirty,
        source.tree_sha256,
        source.classes,
        source.skipped,
        source.secrets,
    )


def _list_given_indexes(source: SourceEntry) -> list[tuple[str, str]]:
    return [(entry.given, entry.sha256) for entry in source.scip if entry.given]
