"""The manifest of a staged version: its entries, and the decision that CURRENT holds already what a run would build."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq

from codequarry.pipelines.embed.encoders import encoder_libraries, same_encoders
from codequarry.pipelines.embed.sparse_encoders import sparse_fingerprints
from codequarry.pipelines.embed.token_encoders import token_fingerprint
from codequarry.pipelines.indexes.ranking_profile import profile_sha256
from codequarry.pipelines.scip.given import given_files, given_identity
from codequarry.pipelines.scip.indexers import indexer_versions
from codequarry.pipelines.scip.stage import read_scip_entries
from codequarry.pipelines.sources.snapshot import Snapshot, read_snapshot
from codequarry.pipelines.store.device_use import DeviceUse
from codequarry.pipelines.store.library_versions import SCANNER, library_version, scanner_version, tool_versions
from codequarry.pipelines.store.workspace import RepositoryWork
from codequarry.schemas.bundle.layout import FAISS_IDMAP_FILE, RANKING_FILE, BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import (
    Counts,
    FileEntry,
    LegEntry,
    Manifest,
    ShardEntry,
    SourceEntry,
    SpladeEntry,
    StackEntry,
    WarpEntry,
    content_digest,
)
from codequarry.schemas.bundle.tables import schema_hash
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.compatibility import compatibility
from codequarry.serving.files.integrity import file_sha256, list_files
from codequarry.serving.files.version_order import next_sequence


@dataclass(frozen=True, slots=True)
class VersionPiece:
    """A part of a staged version whose files are complete."""

    name: str
    """One of `PIECES`."""
    folder: Path
    """Folder of the version."""
    files: tuple[FileEntry, ...]
    seconds: float
    """Wall-clock seconds of the step that wrote it."""
    use: DeviceUse | None = None
    """Device that built it; None for a piece that only the CPU builds."""


PIECES: dict[str, re.Pattern[str]] = {
    "bm25": re.compile(r"bm25/.*"),
    "faiss": re.compile(r"faiss(\.\d+)?\.(index|tuning\.json)|tables/embeddings(\.\d+)?\.parquet"),
    "faiss2": re.compile(r"faiss2(\.\d+)?\.(index|tuning\.json)|tables/embeddings2(\.\d+)?\.parquet"),
    "faiss_idmap": re.compile(re.escape(FAISS_IDMAP_FILE)),
    "catalog": re.compile(r"catalog\.duckdb|(rows|facts)/.*"),
    "warp": re.compile(r"warp.*"),
    "splade": re.compile(r"splade.*"),
}
"""Pieces of a version, in the order of their completion, and the paths of their files."""


class FileEntries:
    """Entries of the files of a version that is being written; each file is hashed once, when its piece is complete."""

    def __init__(self, paths: BundlePaths, held: Manifest | None) -> None:
        """Begin without entries.

        Args:
            paths: Paths of the version.
            held: Manifest of the complete version that CURRENT is or lies over; None when there is none.
        """
        self.held = held
        self.catalog_digest = ""
        """Digest of the catalog's contents, once it is written."""
        self._paths = paths
        self._known: dict[str, FileEntry] = {}

    def link(self, names: Collection[str]) -> None:
        """Take over the entries of files that are links to those of the held version."""
        if self.held is not None:
            self._known |= {entry.path: entry for entry in self.held.files if entry.path in names}

    def piece(self, name: str, seconds: float, use: DeviceUse | None = None) -> VersionPiece:
        """Return a piece whose files are complete."""
        return VersionPiece(name, self._paths.path, self._of(PIECES[name]), seconds, use)

    def all(self) -> tuple[FileEntry, ...]:
        """Return the entries of all files by path."""
        return self._of(re.compile(".*"))

    def _of(self, wanted: re.Pattern[str]) -> tuple[FileEntry, ...]:
        digests = {self._paths.catalog.name: self.catalog_digest}
        names = [name for name in list_files(self._paths.path) if wanted.fullmatch(name)]
        for name in names:
            if name not in self._known:
                self._known[name] = _file_entry(self._paths, name, digests.get(name))
        return tuple(self._known[name] for name in names)


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
    stack: StackEntry | None = None,
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
        stack: The base that it lies over, if there is one.

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
            chunks=sum(source.chunks for source in sources),
        ),
        stack=stack,
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
    return holds_sources(current, snapshots, settings) and is_made_alike(current, settings)


def holds_sources(current: Manifest, snapshots: Sequence[Snapshot], settings: Settings) -> bool:
    """Return whether a version was made of these sources."""
    held = {source.name: (_identity(source), list_given_indexes(source)) for source in current.sources}
    read = {
        snapshot.name: (_identity(snapshot), given_identity(given_files(snapshot.name, settings)))
        for snapshot in snapshots
    }
    return held == read


def is_made_alike(current: Manifest, settings: Settings) -> bool:
    """Return whether the same settings, tools and encoders made this version."""
    return next(list_differences(current, settings), None) is None


def list_differences(current: Manifest, settings: Settings) -> Iterator[str]:
    """Yield what made this version otherwise than a run would today: settings, tools and encoders, by name."""
    tools = tools_in_use(settings)
    yield from sorted(
        name for name in tools.keys() | current.tools.keys() if tools.get(name) != current.tools.get(name)
    )
    if current.settings_sha256 != settings.index_hash():
        yield "settings that decide the contents"
    if (RANKING_FILE, profile_sha256(settings)) not in {(entry.path, entry.sha256) for entry in current.files}:
        yield "the weights of the ranking"
    if not same_encoders(current, settings):
        yield "the dense encoder"
    if not _same_tokens(current, settings):
        yield "the encoder of late interaction"
    if not _same_sparse(current, settings):
        yield "the encoders of learned sparse terms"


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


def list_given_indexes(source: SourceEntry) -> list[tuple[str, str]]:
    """Return (name, sha256) of each SCIP index made elsewhere that a version's repository was indexed with."""
    return [(entry.given, entry.sha256) for entry in source.scip if entry.given]
