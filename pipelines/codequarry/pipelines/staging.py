"""Stage 6: the outputs of all repositories become one staged version, complete with its manifest."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from codequarry.pipelines.bm25_index import build_bm25
from codequarry.pipelines.catalog import build_catalog
from codequarry.pipelines.disk_space import require_space
from codequarry.pipelines.embeddings import ENCODER_KEY, encoder_directory
from codequarry.pipelines.faiss_index import build_faiss
from codequarry.pipelines.scip import read_scip_entries
from codequarry.pipelines.snapshot import Snapshot, read_snapshot
from codequarry.pipelines.staging_folder import new_staging_folder, remove_abandoned
from codequarry.pipelines.tools import tools_in_use
from codequarry.pipelines.workspace import Progress, RepositoryWork, repository_work, silent, write_json
from codequarry.schemas.compatibility import compatibility
from codequarry.schemas.encoder import OnnxEncoder
from codequarry.schemas.errors import CodequarryError, PublishError, SourceError
from codequarry.schemas.integrity import file_sha256, list_files
from codequarry.schemas.layout import BundlePaths, BundleRoot
from codequarry.schemas.manifest import (
    Counts,
    EncoderEntry,
    FaissEntry,
    FileEntry,
    Manifest,
    ScipEntry,
    SourceEntry,
    content_digest,
    to_json,
)
from codequarry.schemas.settings import Settings
from codequarry.schemas.tables import SCHEMAS, TableWriter, embeddings_schema, schema_hash, write_table

# What FAISS, tantivy, Arrow and DuckDB raise when a write fails.
_LIBRARY_FAILURES = (OSError, RuntimeError, ValueError, duckdb.Error)
_STAGE_OF: dict[str, str] = {
    "modules": "module",
    **dict.fromkeys(("scip_documents", "scip_symbols", "scip_occurrences"), "scip"),
}
"""The stage that writes a table, when it is not the chunk stage."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class StagedVersion:
    """A complete version that no reader can see yet."""

    path: Path
    manifest: Manifest
    seconds: dict[str, float]
    """Wall-clock seconds by index."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all files, the manifest apart."""
        return sum(entry.size_bytes for entry in self.manifest.files)


def staged_pointer(settings: Settings) -> Path:
    """The file that tells the verify and publish stages which version is staged."""
    return settings.paths.work / "staged.json"


def stage_bundle(names: Sequence[str], settings: Settings, progress: Progress = silent) -> StagedVersion:
    """Build every table and index of the named repositories in a hidden folder under the bundle root.

    names: repositories whose snapshot, chunk, module, scip and embedding stages have run; their order does not matter.

    Raises SourceError: a stage of a repository has not run. PublishError: the files could not be written (the
    staging folder is removed, CURRENT is untouched).
    """
    root = BundleRoot(settings.bundle.root)
    with ExitStack() as stack:
        try:
            remove_abandoned(root, _claimed(settings))
            require_space(root)
            folder = stack.enter_context(new_staging_folder(root))
        except OSError as error:
            raise PublishError(
                f"nothing can be staged under {root.path}: {error.strerror}",
                suggestion="check that the bundle root is writable, or set [bundle] root",
            ) from error
        try:
            write_json(_claim(settings), {"path": str(folder)})
            staged = _fill(BundlePaths(folder), root, sorted(names), settings, progress)
            write_json(staged_pointer(settings), {"path": str(folder), "version": staged.manifest.version})
            return staged
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, CodequarryError) or not isinstance(error, _LIBRARY_FAILURES):
                raise
            raise PublishError(
                f"staging failed: {error}",
                suggestion="free disk space or fix the cause named above; CURRENT is unchanged",
            ) from error


def _fill(
    paths: BundlePaths, root: BundleRoot, names: list[str], settings: Settings, progress: Progress
) -> StagedVersion:
    seconds: dict[str, float] = {}

    def timed(what: str, work: Callable[[], _T]) -> _T:
        progress(what, 0, 1)
        started = time.perf_counter()
        result = work()
        seconds[what] = time.perf_counter() - started
        progress(what, 1, 1)
        return result

    works = [repository_work(settings.paths.work, name) for name in names]
    snapshots = [read_snapshot(work) for work in works]
    encoder = _copy_encoder(encoder_directory(settings), paths.encoder)
    chunks, chunk_ids, vectors = timed("tables", lambda: _write_tables(paths, works, encoder))
    scip = [read_scip_entries(work) for work in works]
    faiss_entry = timed("faiss", lambda: build_faiss(paths, chunk_ids, vectors, settings.indexes.faiss_factory))
    bm25 = timed("bm25", lambda: build_bm25(paths, chunks, progress))
    catalog = timed("catalog", lambda: build_catalog(paths, encoder.dim))
    digests = {"catalog.duckdb": catalog, "bm25/": bm25.content_sha256}
    manifest = timed(
        "manifest",
        lambda: _manifest(paths, root, snapshots, scip, chunks, encoder, faiss_entry, digests, settings),
    )
    paths.manifest.write_bytes(to_json(manifest))
    for name in list_files(paths.path):
        (paths.path / name).chmod(0o644)  # tantivy writes some for its own user only; another may serve
    return StagedVersion(paths.path, manifest, seconds)


def _copy_encoder(source: Path, target: Path) -> EncoderEntry:
    encoder = OnnxEncoder.open(source)
    target.mkdir()
    for file in sorted(source.iterdir()):
        if file.is_file() and not file.name.startswith("."):
            shutil.copyfile(file, target / file.name)
    return EncoderEntry(name=encoder.spec.name, fingerprint=encoder.fingerprint, dim=encoder.dim)


def _write_tables(
    paths: BundlePaths, works: list[RepositoryWork], encoder: EncoderEntry
) -> tuple[pa.Table, np.ndarray, np.ndarray]:
    """Merged tables on disk; returns chunks and vectors in ascending chunk_id order.

    works: in the order of their names; the rows of each are in the order of the merged table already.
    """
    paths.tables.mkdir()
    for name, schema in SCHEMAS.items():
        with TableWriter(paths.table(name), schema) as writer:
            for work in works:
                _append(writer, work.require(work.table(name), _STAGE_OF.get(name, "chunk")))
    embeddings = pa.concat_tables(_vectors_of(work, encoder) for work in works)
    embeddings = embeddings.sort_by("chunk_id").combine_chunks()
    write_table(paths.table("embeddings"), embeddings, embeddings_schema(encoder.dim))
    chunks = pq.read_table(paths.table("chunks")).sort_by("chunk_id")
    if not chunks["chunk_id"].equals(embeddings["chunk_id"]):
        raise PublishError(
            "chunks and embeddings do not hold the same ids", suggestion="run the embedding stage after the chunk stage"
        )
    vectors = embeddings["vector"].combine_chunks().flatten().to_numpy().reshape(-1, encoder.dim)
    return chunks, chunks["chunk_id"].to_numpy(), vectors


def _append(writer: TableWriter, source: Path) -> None:
    with pq.ParquetFile(source) as file:
        for group in range(file.num_row_groups):
            writer.write(file.read_row_group(group))


def _vectors_of(work: RepositoryWork, encoder: EncoderEntry) -> pa.Table:
    """A repository's embeddings. Raises SourceError: another encoder made them, and they compare with no others."""
    table = pq.read_table(work.require(work.table("embeddings"), "embedding"))
    found = (table.schema.metadata or {}).get(ENCODER_KEY.encode(), b"").decode()
    if found != encoder.fingerprint:
        raise SourceError(
            f"{work.path.name}: its vectors are of encoder {found[:12] or '?'}, expected {encoder.fingerprint[:12]}",
            suggestion=f"run the embedding stage of {work.path.name} again: [embedding] or the exporter changed since",
        )
    return table


def _manifest(
    paths: BundlePaths,
    root: BundleRoot,
    snapshots: list[Snapshot],
    scip: list[tuple[ScipEntry, ...]],
    chunks: pa.Table,
    encoder: EncoderEntry,
    faiss_entry: FaissEntry,
    digests: dict[str, str],
    settings: Settings,
) -> Manifest:
    files = tuple(_file_entry(paths, name, digests) for name in list_files(paths.path))
    counted = {row["values"]: row["counts"] for row in chunks["repo"].value_counts().to_pylist()}
    sources = tuple(
        SourceEntry(
            name=snapshot.name,
            url=snapshot.url,
            ref=snapshot.ref,
            commit=snapshot.commit,
            dirty=snapshot.dirty,
            tree_sha256=snapshot.tree_sha256,
            files=snapshot.files,
            chunks=counted.get(snapshot.name, 0),
            classes=snapshot.classes,
            skipped=snapshot.skipped,
            scip=entries,
        )
        for snapshot, entries in zip(snapshots, scip, strict=True)
    )
    settings_sha256 = settings.index_hash()
    digest = content_digest(sources=sources, settings_sha256=settings_sha256, encoder=encoder, files=files)
    created = datetime.now(UTC).replace(microsecond=0)
    return Manifest(
        version=_free_name(root, f"{created:%Y%m%dT%H%M%SZ}-{digest[:8]}"),
        created=created.isoformat().replace("+00:00", "Z"),
        digest=digest,
        settings_sha256=settings_sha256,
        tools=tools_in_use(settings),
        sources=sources,
        encoder=encoder,
        faiss=faiss_entry,
        counts=Counts(
            files=sum(snapshot.files for snapshot in snapshots),
            skipped_files=sum(sum(snapshot.skipped.values()) for snapshot in snapshots),
            chunks=chunks.num_rows,
        ),
        compatibility=compatibility(encoder.fingerprint),
        files=files,
    )


def _free_name(root: BundleRoot, wanted: str) -> str:
    taken = set(root.version_names())
    return next(name for name in (wanted, *(f"{wanted}-{n}" for n in range(2, 10_000))) if name not in taken)


def _file_entry(paths: BundlePaths, name: str, digests: dict[str, str]) -> FileEntry:
    file = paths.path / name
    folder = name.partition("/")[0] + "/"
    content = digests.get(name) or digests.get(folder)
    rows = schema = None
    if name.endswith(".parquet"):
        with pq.ParquetFile(file) as parquet:
            rows, schema = parquet.metadata.num_rows, schema_hash(parquet.schema_arrow)
    return FileEntry(
        path=name,
        size_bytes=file.stat().st_size,
        sha256=file_sha256(file),
        content_sha256=content,
        rows=rows,
        schema_sha256=schema,
    )


def _claim(settings: Settings) -> Path:
    """The file that names the last staging folder begun from this work folder."""
    return settings.paths.work / "staging.json"


def _claimed(settings: Settings) -> Path | None:
    """The staging folder of this work folder's last run, which the caller follows: nobody waits for it."""
    if not _claim(settings).is_file():
        return None
    return Path(read_pointer(_claim(settings), "staging")["path"])


def read_pointer(file: Path, stage: str) -> dict[str, str]:
    """A pointer one publish stage left for the next. Raises PublishError: that stage has not run."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PublishError(f"nothing is {stage}", suggestion=f"run the {stage} stage first") from None
