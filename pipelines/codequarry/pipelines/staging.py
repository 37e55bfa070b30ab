"""Stage 6: the outputs of all repositories become one staged version, complete with its manifest.

Shards whose key CURRENT knows are linked to it; the tables and the catalog that look over all files are made anew.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import duckdb
import numpy as np
import pyarrow as pa

from codequarry.pipelines.bm25_index import write_meta
from codequarry.pipelines.catalog import build_catalog, write_row_index
from codequarry.pipelines.disk_space import require_space
from codequarry.pipelines.encoders import encoder_directories, read_adapted
from codequarry.pipelines.faiss_index import is_exact
from codequarry.pipelines.faiss_ladder import faiss_factory
from codequarry.pipelines.faiss_stage import write_dense
from codequarry.pipelines.file_index import write_file_index
from codequarry.pipelines.hard_links import link_all
from codequarry.pipelines.parts import Part, plan_parts
from codequarry.pipelines.ranking_profile import profile_bytes
from codequarry.pipelines.shards import Shard, link_shard, plan_shards, write_shard
from codequarry.pipelines.snapshot import read_snapshot
from codequarry.pipelines.staging_folder import new_staging_folder, remove_abandoned
from codequarry.pipelines.table_rows import row_groups
from codequarry.pipelines.version_manifest import encoder_entry, file_entries, source_entry, version_manifest
from codequarry.pipelines.workspace import Progress, RepositoryWork, repository_work, silent, write_json
from codequarry.schemas.encoder import SPEC_FILE, EncoderSpec
from codequarry.schemas.errors import CodequarryError, PublishError
from codequarry.schemas.integrity import current_manifest, list_files
from codequarry.schemas.layout import DENSE_LEGS, BundlePaths, BundleRoot
from codequarry.schemas.manifest import (
    EncoderEntry,
    FaissEntry,
    LegEntry,
    Manifest,
    ShardEntry,
    to_json,
)
from codequarry.schemas.settings import Settings
from codequarry.schemas.shards import SHARDED_TABLES, shard_of
from codequarry.schemas.tables import AST_REFERENCES, SCHEMAS, TableWriter

# What FAISS, tantivy, Arrow and DuckDB raise when a write fails.
_LIBRARY_FAILURES = (OSError, RuntimeError, ValueError, duckdb.Error, pa.ArrowException)
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
    reused_shards: int
    """Those of ``manifest.shards`` that are links to the version before."""

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
    parts = [plan_parts(work, settings) for work in works]
    held = current_manifest(root)
    chunks = sum(_chunks_of(part) for each in parts for part in each)
    legs, linked = _put_encoders(settings, paths, root, held, chunks)
    size_bytes = sum(read_snapshot(work).size_bytes for work in works)
    plan = plan_shards([part for each in parts for part in each], size_bytes, legs, settings)
    paths.tables.mkdir()
    paths.bm25.mkdir()
    shards, reused, reused_shards = timed("shards", lambda: _put_shards(plan, paths, root, held, legs, progress))
    linked |= reused
    timed("tables", lambda: _write_tables(paths, works, plan))
    timed("faiss", lambda: write_dense(paths, plan, legs, settings.indexes))
    timed("files", lambda: write_file_index(paths, works, plan[0].count, settings))
    paths.ranking.write_bytes(profile_bytes(settings))
    write_meta(paths, [segment for shard in shards for segment in shard.segments])
    catalog = timed("catalog", lambda: build_catalog(paths, *(leg.encoder.dim for leg in legs)))
    timed("rows", lambda: write_row_index(paths))
    warp = splade = None
    if settings.late_interaction:
        from codequarry.pipelines.warp_stage import put_warp

        warp, links = timed("warp", lambda: put_warp(paths, plan, settings, root, held, progress))
        linked |= links
    if settings.learned_sparse:
        from codequarry.pipelines.splade_stage import put_splade

        splade, links = timed("splade", lambda: put_splade(paths, plan, settings, root, held, progress))
        linked |= links
    files = timed("checksums", lambda: file_entries(paths, held, linked, catalog))
    sources = tuple(source_entry(work, sum(map(_chunks_of, own))) for work, own in zip(works, parts, strict=True))
    manifest = version_manifest(root, sources, legs, tuple(shards), files, settings, warp, splade)
    paths.manifest.write_bytes(to_json(manifest))
    for name in list_files(paths.path):
        if name not in linked:
            (paths.path / name).chmod(0o644)  # tantivy writes some for its own user only; another may serve
    return StagedVersion(paths.path, manifest, seconds, reused_shards)


def _put_encoders(
    settings: Settings, paths: BundlePaths, root: BundleRoot, held: Manifest | None, chunks: int
) -> tuple[list[LegEntry], frozenset[str]]:
    """The query encoder of every dense leg. chunks: of the version. Returns the legs and the paths that are links."""
    folders, adapted = encoder_directories(settings), read_adapted(settings)
    said = adapted.said if adapted is not None else ""
    legs: list[LegEntry] = []
    linked: frozenset[str] = frozenset()
    for channel, folder in folders.items():
        entry, links = _put_encoder(folder, paths.leg(channel), root, held)
        if channel == DENSE_LEGS[0]:
            entry = entry.model_copy(update={"adaptation": said})
        factory = faiss_factory(chunks, entry.dim, settings.indexes)
        index = FaissEntry(factory=factory, exact=is_exact(factory, entry.dim))
        legs.append(LegEntry(channel=channel, encoder=entry, faiss=index))
        linked |= links
    return legs, linked


def _put_encoder(
    source: Path, paths: BundlePaths, root: BundleRoot, held: Manifest | None
) -> tuple[EncoderEntry, frozenset[str]]:
    """One query encoder, its large files linked to CURRENT where that has them. Returns the paths that are links."""
    spec, name = EncoderSpec.load(source), paths.encoder.name
    paths.encoder.mkdir()
    linked: set[str] = set()
    if held is not None:
        wanted = {f"{name}/{file}": sha256 for file, sha256 in spec.sha256.items()}
        same = [entry for entry in held.files if wanted.get(entry.path) == entry.sha256]
        if link_all(root.version(held.version), paths, same):
            linked = {entry.path for entry in same}
    for file in (*spec.sha256, SPEC_FILE):
        if f"{name}/{file}" not in linked:
            shutil.copyfile(source / file, paths.encoder / file)
    return encoder_entry(spec), frozenset(linked)


def _put_shards(
    plan: list[Shard],
    paths: BundlePaths,
    root: BundleRoot,
    held: Manifest | None,
    legs: list[LegEntry],
    progress: Progress,
) -> tuple[list[ShardEntry], frozenset[str], int]:
    """Every shard, linked to CURRENT where that has it.

    Returns their entries, the paths that are links, and how many shards are.
    """
    entries: list[ShardEntry] = []
    linked: set[str] = set()
    reused = 0
    for done, shard in enumerate(plan, start=1):
        known = link_shard(shard, root.version(held.version), held, paths) if held is not None else None
        if known is None:
            entries.append(write_shard(shard, paths, legs))
        else:
            entry, files = known
            entries.append(entry)
            linked.update(file.path for file in files)
            reused += 1
        progress("shards", done, len(plan))
    return entries, frozenset(linked), reused


def _write_tables(paths: BundlePaths, works: list[RepositoryWork], plan: list[Shard]) -> None:
    """Tables whose rows depend on more than their own file.

    works: in the order of their names; the rows of each are in the order of the merged table already.
    """
    for name, schema in SCHEMAS.items():
        if name not in SHARDED_TABLES:
            with TableWriter(paths.table(name), schema) as writer:
                for work in works:
                    for table in row_groups(work.require(work.table(name), _STAGE_OF.get(name, "chunk"))):
                        writer.write(table)
    _write_references(paths, works, plan)


def _write_references(paths: BundlePaths, works: list[RepositoryWork], plan: list[Shard]) -> None:
    """References by shard: a scan for each shard would read them as often as there are shards."""
    with ExitStack() as stack:
        writers = {
            shard.number: stack.enter_context(TableWriter(paths.path / shard.table("ast_references"), AST_REFERENCES))
            for shard in plan
        }
        for work in works:
            for table in row_groups(work.require(work.table("ast_references"), "chunk")):
                encoded = table["path"].combine_chunks().dictionary_encode()
                repo, found = work.path.name, encoded.dictionary.to_pylist()
                by_path = np.array([shard_of(repo, path, plan[0].count) for path in found], np.int64)
                shards = by_path[encoded.indices.to_numpy()]
                for number in np.unique(shards).tolist():
                    writers[number].write(table.take(pa.array(np.flatnonzero(shards == number))))


def _chunks_of(part: Part) -> int:
    return sum(counts["chunks"] for counts in part.chunked()["facts"]["languages"].values())


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
