"""Publishing of a delta version: the stages run on the files that differ from the last complete version."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from codequarry.pipelines.bundle.disk_space import require_space_for_run
from codequarry.pipelines.bundle.manifest import holds_sources
from codequarry.pipelines.bundle.stage import Over, Staged, stage_bundle
from codequarry.pipelines.embed.stage import EmbeddingReport, embed_repository, require_encoders
from codequarry.pipelines.gates.verify import Verified, verify_staged
from codequarry.pipelines.modules.stage import ModuleReport, module_repository
from codequarry.pipelines.publish.publish import acknowledge_current, make_current, publish_verified, publishing
from codequarry.pipelines.publish.ref_files import name_ref, publish_ref
from codequarry.pipelines.run import IndexReport, StackedFiles, accepted_of, limit_store_to_settings, with_push
from codequarry.pipelines.scip.stage import scip_repository
from codequarry.pipelines.sources.sources import open_source, repositories_to_index
from codequarry.pipelines.stack.base_version import Base, FullBuildNeededError, KeptSources, find_base
from codequarry.pipelines.stack.changes import Changes, find_changes
from codequarry.pipelines.stack.stack_arrays import hidden_chunks, write_stack
from codequarry.pipelines.stack.surroundings import surroundings
from codequarry.pipelines.store.stage_clock import StageClock
from codequarry.pipelines.store.workspace import Progress, silent, working
from codequarry.pipelines.syntax.stage import ChunkReport, chunk_repository
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import Manifest, SourceEntry, StackEntry
from codequarry.schemas.bundle.refs import RefName
from codequarry.schemas.settings.load import RepositorySettings, Settings
from codequarry.serving.files.integrity import ref_manifest
from codequarry.serving.version.check import Check

_WORK = "delta"
"""Folder of the work folder with the files that differ."""


@dataclass(frozen=True, slots=True)
class NotStacked:
    """No delta version can hold what the sources hold now: build a complete one."""

    reason: str
    """A sentence."""


@dataclass(frozen=True, slots=True)
class _Stages:
    """Results of the stages on the files that differ."""

    chunks: tuple[ChunkReport, ...]
    modules: tuple[ModuleReport, ...]
    embeddings: tuple[EmbeddingReport, ...]


def index_changes(
    settings: Settings,
    progress: Progress = silent,
    *,
    ref: RefName | None = None,
    accept: str = "",
    report: Callable[[Sequence[Check]], None] | None = None,
    kept: KeptSources | None = None,
) -> IndexReport | NotStacked:
    """Publish the files that differ from the last complete version as a delta version over it.

    Args:
        settings: Settings of the run.
        progress: Told of the work done.
        ref: Further ref that the version is of; None for CURRENT.
        accept: Why regressions against CURRENT are acceptable; kept in the manifest.
        report: Told of the checks as they are made.
        kept: Repositories of the base, when the process has made a version over it before.

    Returns:
        The version that CURRENT or the ref names now; or why a complete version has to be built, and both are as they
        were.

    Raises:
        CodequarryError: See ``errors``; after any error CURRENT is as it was, but for one of the push, which follows.
    """
    repositories = repositories_to_index(settings)

    def verify(staged: Staged) -> Verified:
        return verify_staged(staged, settings, progress, accept=accept or accepted_of(ref), report=report)

    with working(settings):
        require_space_for_run(BundleRoot(settings.bundle.root), settings.paths.work)
        try:
            done = _index(repositories, settings, progress, ref, verify, kept or KeptSources())
        except FullBuildNeededError as needed:
            return NotStacked(str(needed))
        finally:
            shutil.rmtree(_delta_settings(settings).paths.work / "repositories", ignore_errors=True)
    return with_push(done, settings, progress) if ref is None else done


def _index(
    repositories: Mapping[str, RepositorySettings],
    settings: Settings,
    progress: Progress,
    ref: RefName | None,
    verify: Callable[[Staged], Verified],
    kept: KeptSources,
) -> IndexReport:
    root, clock = BundleRoot(settings.bundle.root), StageClock()
    with clock.time("census"):
        base = find_base(list(repositories), settings, kept)
        changes = _all_changes(repositories, base, settings, progress)
        snapshots = tuple(each.snapshot for each in changes)

    def unchanged(manifest: Manifest, *, was: bool) -> IndexReport:
        path = root.version(manifest.version).path
        files = {each.work.path.name: each.digests for each in changes}
        return IndexReport(path, manifest, was, clock.seconds, clock.cpu_seconds, snapshots, files=files)

    if ref is not None:
        held = ref_manifest(root, ref)
        for manifest in (held, base.current, base.manifest):
            if manifest is not None and _is_over(manifest, base) and holds_sources(manifest, snapshots, settings):
                name_ref(root, ref, manifest.version)
                return unchanged(manifest, was=manifest is held)
    elif holds_sources(base.current, snapshots, settings):
        acknowledge_current(root)
        return unchanged(base.current, was=True)
    elif holds_sources(base.manifest, snapshots, settings):
        with publishing(root):
            make_current(root, base.manifest.version)
        return unchanged(base.manifest, was=False)
    hidden = hidden_chunks(base.paths, {each.work.path.name: each.hidden for each in changes})
    _require_share(sum(hidden.values()), base, settings)
    delta = _delta_settings(settings)
    stages = _run_stages(changes, base, delta, progress, clock)
    added = {report.name: report.chunks for report in stages.chunks}
    _require_share(sum(hidden.values()) + sum(added.values()), base, settings)
    with clock.time("stage"):
        staged = _stage(changes, base, hidden, added, delta, progress)
    with clock.time("verify"):
        verified = verify(staged)
    with clock.time("publish"):
        published = (
            publish_verified(verified, settings.bundle) if ref is None else publish_ref(verified, settings.bundle, ref)
        )
        limits = limit_store_to_settings(settings, progress)
    files = StackedFiles(
        base.manifest.version,
        changed=sum(len(each.changed) for each in changes),
        deleted=sum(len(each.deleted) for each in changes),
        chunks=sum(added.values()),
    )
    return IndexReport(
        published.path, published.manifest, published.unchanged, clock.seconds, clock.cpu_seconds,
        snapshots, stages.chunks, stages.modules, (), stages.embeddings,
        published.linked_bytes, published.pruned, staged.reused_shards, None,
        (*verified.warnings, *limits), files, {each.work.path.name: each.digests for each in changes},
    )  # fmt: skip


def _is_over(manifest: Manifest, base: Base) -> bool:
    return base.manifest.version in (manifest.version, manifest.stack.base if manifest.stack is not None else "")


def _delta_settings(settings: Settings) -> Settings:
    """Return the settings with the work folder of the files that differ."""
    paths = settings.paths.model_copy(update={"work": settings.paths.work / _WORK})
    return settings.model_copy(update={"paths": paths})


def _without_scip(settings: Settings) -> Settings:
    """Return the settings without indexers, and without the indexes that are given."""
    repositories = tuple(each.model_copy(update={"scip": ()}) for each in settings.sources.repositories)
    return settings.model_copy(
        update={
            "scip": settings.scip.model_copy(update={"enabled": False}),
            "sources": settings.sources.model_copy(update={"repositories": repositories}),
        }
    )


def _all_changes(
    repositories: Mapping[str, RepositorySettings], base: Base, settings: Settings, progress: Progress
) -> list[Changes]:
    """Return the differences of every repository, by name; some file is always indexed."""
    delta = _delta_settings(settings)
    shutil.rmtree(delta.paths.work / "repositories", ignore_errors=True)
    found = {
        name: find_changes(repository, open_source(repository, settings), base.sources[name], delta, progress)
        for name, repository in sorted(repositories.items())
    }
    if not any(each.indexed for each in found.values()):
        # A version has a file at least: the smallest that stayed is read again.
        stayed = [
            (row.size_bytes, name, path)
            for name, each in found.items()
            for path, row in each.base.census.items()
            if not row.identity.skip_reason and path not in each.hidden
        ]
        _, name, path = min(stayed)
        again = find_changes(
            repositories[name], found[name].source, base.sources[name], delta, progress, again=frozenset({path})
        )
        found[name] = again
    return list(found.values())


def _require_share(chunks: int, base: Base, settings: Settings) -> None:
    """Raise FullBuildNeededError when too many chunks differ from the base's."""
    share = settings.bundle.delta_share
    if chunks > share * base.manifest.counts.chunks:
        raise FullBuildNeededError(f"more than {share:.0%} of the chunks changed since the last complete version")


def _run_stages(
    changes: Sequence[Changes], base: Base, settings: Settings, progress: Progress, clock: StageClock
) -> _Stages:
    """Run the stages on the files that differ; repositories without any take no part."""
    own = [each for each in changes if each.own]
    names = [each.work.path.name for each in own]
    with clock.time("embed"):
        require_encoders(settings)
    with clock.time("chunk"):
        chunks = tuple(chunk_repository(name, settings, progress) for name in names)
    with clock.time("module"):
        modules = tuple(
            module_repository(each.work.path.name, settings, progress, surroundings(each, base, settings))
            for each in own
        )
    without_scip = _without_scip(settings)
    for name in names:  # empty tables: an indexer reads a whole repository, and what changed is known by syntax
        scip_repository(name, without_scip, progress)
    with clock.time("embed"):
        embeddings = tuple(embed_repository(name, settings, progress) for name in names)
    return _Stages(chunks, modules, embeddings)


def _stage(
    changes: Sequence[Changes],
    base: Base,
    hidden: Mapping[str, int],
    added: Mapping[str, int],
    settings: Settings,
    progress: Progress,
) -> Staged:
    own = [each for each in changes if each.own]
    indexed = sum(each.indexed for each in own)
    entry = StackEntry(
        base=base.manifest.version,
        base_sha256=base.manifest_sha256,
        hidden_files=sum(len(each.hidden) for each in changes),
        hidden_chunks=sum(hidden.values()),
        files=indexed,
        skipped_files=sum(len(each.own) for each in own) - indexed,
        chunks=sum(added.values()),
    )
    sources = tuple(
        _source_entry(each, each.base.entry.chunks - hidden.get(name, 0) + added.get(name, 0))
        for each in changes
        for name in (each.work.path.name,)
    )

    def write(paths: BundlePaths) -> None:
        write_stack(paths, base.paths, changes)

    names = [each.work.path.name for each in own]
    return stage_bundle(names, settings, progress, Over(base.manifest, entry, sources, write))


def _source_entry(changes: Changes, chunks: int) -> SourceEntry:
    """Return the entry of a whole repository."""
    snapshot = changes.snapshot
    return changes.base.entry.model_copy(
        update={
            "url": snapshot.url,
            "ref": snapshot.ref,
            "commit": snapshot.commit,
            "dirty": snapshot.dirty,
            "tree_sha256": snapshot.tree_sha256,
            "files": snapshot.files,
            "chunks": chunks,
            "classes": snapshot.classes,
            "skipped": snapshot.skipped,
            "secrets": snapshot.secrets,
            "scip": changes.scip,
        }
    )
