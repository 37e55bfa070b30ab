"""Stage 6: the outputs of all repositories become one staged version, complete with its manifest.

Shards whose key CURRENT knows are linked to it; the tables and the catalog that cover all files are made anew.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from codequarry.pipelines.bundle.catalog import build_catalog
from codequarry.pipelines.bundle.disk_space import require_space
from codequarry.pipelines.bundle.folder import new_staging_folder, remove_abandoned
from codequarry.pipelines.bundle.manifest import FileEntries, VersionPiece, source_entry, version_manifest
from codequarry.pipelines.bundle.shard_files import ShardTask, write_shard
from codequarry.pipelines.bundle.shards import link_shard, shard_entry, shard_task
from codequarry.pipelines.compute.work_units import map_units, processes_for
from codequarry.pipelines.embed.encoders import encoder_directories, encoder_entry, read_adapted
from codequarry.pipelines.embed.stage import restore_vectors
from codequarry.pipelines.indexes.bm25 import write_meta
from codequarry.pipelines.indexes.faiss import EXACT, builds_on_gpu, faiss_factory, is_exact
from codequarry.pipelines.indexes.faiss_stage import write_dense
from codequarry.pipelines.indexes.file_index import write_file_index
from codequarry.pipelines.indexes.ranking_profile import profile_bytes
from codequarry.pipelines.sources.snapshot import read_snapshot
from codequarry.pipelines.store.access import make_bundle_root
from codequarry.pipelines.store.device_use import DeviceUse
from codequarry.pipelines.store.links import encoder_files, link_all, link_or_copy, roots_beside
from codequarry.pipelines.store.parts import Shard, plan_parts, plan_shards
from codequarry.pipelines.store.row_groups import row_groups
from codequarry.pipelines.store.stage_clock import StageClock
from codequarry.pipelines.store.workspace import Progress, RepositoryWork, repository_work, silent, write_json
from codequarry.pipelines.syntax.stage import restore_chunks
from codequarry.schemas.bundle.layout import DENSE_LEGS, BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import (
    EncoderEntry,
    FaissEntry,
    LegEntry,
    Manifest,
    ShardEntry,
    SourceEntry,
    StackEntry,
    to_json,
)
from codequarry.schemas.bundle.shards import SHARDED_TABLES, shard_of
from codequarry.schemas.bundle.tables import AST_REFERENCES, SCHEMAS, TableWriter
from codequarry.schemas.errors import CodequarryError, PublishError
from codequarry.schemas.resources import raise_if_exhausted, trim_memory
from codequarry.schemas.settings.load import Settings
from codequarry.serving.encoders.spec import SPEC_FILE, EncoderSpec
from codequarry.serving.files.integrity import complete_manifest

# What FAISS, tantivy, Arrow and DuckDB raise when a write fails.
_LIBRARY_FAILURES = (OSError, RuntimeError, ValueError, duckdb.Error, pa.ArrowException)
_STAGE_OF: dict[str, str] = {
    "modules": "module",
    **dict.fromkeys(("scip_documents", "scip_symbols", "scip_occurrences"), "scip"),
}
"""The stage that writes a table, when it is not the chunk stage."""
_CHUNKS_A_PROCESS = 1_500
"""Chunks of new shards for each process: they take some .75 CPU-seconds, the start of a process .25."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A complete version that no reader can see yet; `verify_staged` takes it."""

    path: Path
    """Its hidden folder under the bundle root."""
    manifest: Manifest
    seconds: dict[str, float]
    """Wall-clock seconds by index."""
    reused_shards: int
    """Those of ``manifest.shards`` that are links to the version before."""
    devices: tuple[DeviceUse, ...] = ()
    """Device that built each dense index, in the order of ``manifest.legs``."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all files, the manifest apart."""
        return sum(entry.size_bytes for entry in self.manifest.files)


@dataclass(frozen=True, slots=True)
class Over:
    """Base of a staged delta version, for which the work folder holds the files that differ alone."""

    base: Manifest
    """The complete version that CURRENT is or lies over."""
    entry: StackEntry
    sources: tuple[SourceEntry, ...]
    """Sources of both together."""
    write: Callable[[BundlePaths], None]
    """Writes ``stack/``, when all else but the manifest is written."""


def stage_bundle(
    names: Sequence[str], settings: Settings, progress: Progress = silent, over: Over | None = None
) -> Staged:
    """Build a version; arguments and errors are those of `stage_pieces`."""
    pieces = stage_pieces(names, settings, progress, over)
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            return end.value


def stage_pieces(
    names: Sequence[str], settings: Settings, progress: Progress = silent, over: Over | None = None
) -> Generator[VersionPiece, None, Staged]:
    """Build every table and index of the named repositories in a hidden folder under the bundle root.

    Args:
        names: Repositories whose snapshot, chunk, module, scip and embedding stages have run, in any order.
        settings: Settings of the run.
        progress: Told of the work done.
        over: Base of a delta version; None for a complete one.

    Returns:
        A generator of the pieces, each as soon as its files are complete; its own value is the staged version.

    Raises:
        SourceError: A stage of a repository has not run.
        PublishError: The files could not be written; the staging folder is removed, CURRENT is untouched.
        UnavailableError: The bundle root cannot be made.
    """
    root = BundleRoot(settings.bundle.root)
    with ExitStack() as stack:
        try:
            make_bundle_root(settings.bundle)
            remove_abandoned(root, _claimed(settings.paths.work))
            require_space(root)
            folder = stack.enter_context(new_staging_folder(root))
        except OSError as error:
            raise_if_exhausted(error, f"nothing can be staged under {root.path} now")
            raise PublishError(
                f"nothing can be staged under {root.path}: {error.strerror}",
                suggestion="check that the bundle root is writable, or set [bundle] root",
            ) from error
        try:
            write_json(_claim(settings.paths.work), {"path": str(folder)})
            return (yield from _fill(BundlePaths(folder), root, sorted(names), settings, progress, over))
        except BaseException as error:
            for left in (*folder.parent.glob(f"{folder.name}.*"), folder):  # of a process that was ended as well
                shutil.rmtree(left, ignore_errors=True)
            if isinstance(error, CodequarryError) or not isinstance(error, _LIBRARY_FAILURES):
                raise
            raise_if_exhausted(error, "staging failed")
            raise PublishError(
                f"staging failed: {error}",
                suggestion="free disk space or fix the cause named above; CURRENT is unchanged",
            ) from error


def _fill(
    paths: BundlePaths, root: BundleRoot, names: list[str], settings: Settings, progress: Progress, over: Over | None
) -> Generator[VersionPiece, None, Staged]:
    clock = StageClock()
    entries = FileEntries(paths, complete_manifest(root) if over is None else over.base)

    @contextmanager
    def step(what: str) -> Iterator[None]:
        progress(what, 0, 1)
        with clock.time(what):
            yield
            trim_memory()
        progress(what, 1, 1)

    works = [repository_work(settings.paths.work, name) for name in names]
    parts = [plan_parts(work, settings) for work in works]
    held = entries.held
    counts = [sum(part.chunk_count() for part in own) for own in parts]
    legs, linked = _put_encoders(settings, paths, root, held, sum(counts), exact=over is not None)
    entries.link(linked)
    size_bytes = sum(read_snapshot(work).size_bytes for work in works)
    plan = plan_shards([part for each in parts for part in each], size_bytes, legs, settings)
    paths.tables.mkdir()
    paths.bm25.mkdir()
    with step("shards"):
        shards, linked, reused_shards = _put_shards(plan, paths, root, held, legs, settings, progress)
    entries.link(linked)
    with step("tables"):
        _write_tables(paths, works, plan)
    write_meta(paths, [segment for shard in shards for segment in shard.segments])
    yield entries.piece("bm25", clock.seconds["shards"])
    with step("faiss"):
        uses = write_dense(paths, plan, legs, settings.indexes)
    for leg in legs:
        yield entries.piece(leg.channel, clock.seconds["faiss"], uses[leg.channel])
    yield entries.piece("faiss_idmap", clock.seconds["faiss"])
    with step("files"):
        write_file_index(paths, works, plan[0].count, settings)
    paths.ranking.write_bytes(profile_bytes(settings))
    with step("catalog"):
        dims = [leg.encoder.dim for leg in legs]
        entries.catalog_digest = build_catalog(paths, *dims, commented=over is None)
    yield entries.piece("catalog", clock.seconds["catalog"])
    warp = splade = None
    if settings.late_interaction:
        from codequarry.pipelines.indexes.warp.stage import put_warp

        with step("warp"):
            warp, linked = put_warp(paths, plan, settings, root, held, progress)
        entries.link(linked)
        yield entries.piece("warp", clock.seconds["warp"])
    if settings.learned_sparse:
        from codequarry.pipelines.indexes.splade.stage import put_splade

        with step("splade"):
            splade, linked = put_splade(paths, plan, settings, root, held, progress)
        entries.link(linked)
        yield entries.piece("splade", clock.seconds["splade"])
    if over is not None:
        with step("stack"):
            over.write(paths)
    with step("checksums"):
        files = entries.all()
    if over is None:
        sources, stack = tuple(source_entry(work, count) for work, count in zip(works, counts, strict=True)), None
    else:
        sources, stack = over.sources, over.entry
    manifest = version_manifest(root, sources, legs, tuple(shards), files, settings, warp, splade, stack)
    paths.manifest.write_bytes(to_json(manifest))
    return Staged(paths.path, manifest, clock.seconds, reused_shards, tuple(uses.values()))


def _put_encoders(
    settings: Settings, paths: BundlePaths, root: BundleRoot, held: Manifest | None, chunks: int, *, exact: bool
) -> tuple[list[LegEntry], frozenset[str]]:
    """Put the query encoder of every dense index into a version.

    Args:
        settings: Settings of the run.
        paths: Paths of the version.
        root: Bundle root.
        held: Manifest of the complete version that CURRENT is or lies over; None when there is none.
        chunks: Number of chunks of the version.
        exact: Compare with every vector, whatever the settings say.

    Returns:
        Entries of the dense indexes, and the paths that are links.
    """
    folders, adapted = encoder_directories(settings), read_adapted(settings)
    beside = encoder_files(roots_beside(root, settings.fleet))
    gpu = builds_on_gpu(settings.indexes)
    said = adapted.said if adapted is not None else ""
    legs: list[LegEntry] = []
    linked: frozenset[str] = frozenset()
    for channel, folder in folders.items():
        entry, links = _put_encoder(folder, paths.leg(channel), root, held, beside)
        if channel == DENSE_LEGS[0]:
            entry = entry.model_copy(update={"adaptation": said})
        factory = EXACT if exact else faiss_factory(chunks, entry.dim, settings.indexes, gpu=gpu)
        index = FaissEntry(factory=factory, exact=is_exact(factory, entry.dim))
        legs.append(LegEntry(channel=channel, encoder=entry, faiss=index))
        linked |= links
    return legs, linked


def _put_encoder(
    source: Path, paths: BundlePaths, root: BundleRoot, held: Manifest | None, beside: Mapping[str, Path]
) -> tuple[EncoderEntry, frozenset[str]]:
    """Put one query encoder into a version; files that CURRENT or another bundle of the fleet has are links.

    Args:
        source: Folder of the encoder.
        paths: Paths of the version, for this dense index.
        root: Bundle root.
        held: Manifest of the complete version that CURRENT is or lies over; None when there is none.
        beside: Files of encoders of another bundle by sha256.

    Returns:
        Entry of the encoder, and the paths that are links to the held version.
    """
    spec, name = EncoderSpec.load(source), paths.encoder.name
    paths.encoder.mkdir()
    linked: set[str] = set()
    if held is not None:
        wanted = {f"{name}/{file}": sha256 for file, sha256 in spec.sha256.items()}
        same = [entry for entry in held.files if wanted.get(entry.path) == entry.sha256]
        if link_all(root.version(held.version), paths, same):
            linked = {entry.path for entry in same}
    for file, sha256 in spec.sha256.items():
        if f"{name}/{file}" not in linked:
            link_or_copy(source / file, beside.get(sha256), paths.encoder / file, sha256)
    shutil.copyfile(source / SPEC_FILE, paths.encoder / SPEC_FILE)
    return encoder_entry(spec), frozenset(linked)


def _put_shards(
    plan: list[Shard],
    paths: BundlePaths,
    root: BundleRoot,
    held: Manifest | None,
    legs: list[LegEntry],
    settings: Settings,
    progress: Progress,
) -> tuple[list[ShardEntry], frozenset[str], int]:
    """Put every shard into a version, linked to CURRENT when that has it.

    Args:
        plan: All shards.
        paths: Paths of the version.
        root: Bundle root.
        held: Manifest of the complete version that CURRENT is or lies over; None when there is none.
        legs: Dense indexes of the version.
        settings: Settings of the run.
        progress: Told of the shards done.

    Returns:
        Entries of the shards, the paths that are links, and the number of linked shards.
    """
    entries: dict[int, ShardEntry] = {}
    linked: set[str] = set()
    for shard in plan:
        known = link_shard(shard, root.version(held.version), held, paths) if held is not None else None
        if known is not None:
            entries[shard.number], files = known
            linked.update(file.path for file in files)
            progress("shards", len(entries), len(plan))
    new, reused = [shard for shard in plan if shard.number not in entries], len(entries)

    def tasks() -> Iterator[ShardTask]:
        for shard in new:
            parts = [part for part, _ in shard.sources]
            restore_chunks(parts, settings)
            restore_vectors(parts, [leg.channel for leg in legs], settings)
            yield shard_task(shard, paths, legs)

    def show(done: int) -> None:
        progress("shards", reused + done, len(plan))
        trim_memory()

    processes = processes_for(len(new), sum(map(_chunk_count, new)) / _CHUNKS_A_PROCESS, settings.compute)
    for shard, contents in zip(new, map_units(write_shard, tasks(), len(new), processes, show), strict=True):
        entries[shard.number] = shard_entry(shard, *contents)
    return [entries[shard.number] for shard in plan], frozenset(linked), reused


def _chunk_count(shard: Shard) -> float:
    """Return about how many chunks a shard has, from those of its parts."""
    return sum(part.chunk_count() * len(paths) / len(part.files) for part, paths in shard.sources)


def _write_tables(paths: BundlePaths, works: list[RepositoryWork], plan: list[Shard]) -> None:
    """Write the tables whose rows depend on more than their own file.

    Args:
        paths: Paths of the version.
        works: Work folders in the order of their names; the rows of each already have the order of the merged table.
        plan: All shards.
    """
    for name, schema in SCHEMAS.items():
        if name not in SHARDED_TABLES:
            with TableWriter(paths.table(name), schema) as writer:
                for work in works:
                    for table in row_groups(work.require(work.table(name), _STAGE_OF.get(name, "chunk"))):
                        writer.write(table)
    _write_references(paths, works, plan)


def _write_references(paths: BundlePaths, works: list[RepositoryWork], plan: list[Shard]) -> None:
    """Write references by shard, in one scan: a scan for each shard would read them once per shard."""
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


def _claim(work: Path) -> Path:
    """Return the file that names the last staging folder begun from this work folder."""
    return work / "staging.json"


def _claimed(work: Path) -> Path | None:
    """Return the staging folder of this work folder's last run, which nobody waits for any more."""
    if not _claim(work).is_file():
        return None
    return Path(json.loads(_claim(work).read_text(encoding="utf-8"))["path"])
