"""The whole pipeline: repositories in, published version out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from codequarry.pipelines.bundle.disk_space import require_space_for_run
from codequarry.pipelines.bundle.manifest import is_current, list_differences
from codequarry.pipelines.bundle.stage import stage_bundle
from codequarry.pipelines.embed.encoders import keeps_vectors
from codequarry.pipelines.embed.stage import EmbeddingReport, require_encoders
from codequarry.pipelines.gates.verify import verify_staged
from codequarry.pipelines.modules.stage import ModuleReport
from codequarry.pipelines.publish.publish import acknowledge_current, publish_verified
from codequarry.pipelines.publish.ref_files import publish_ref
from codequarry.pipelines.publish.remote.push import Pushed, push_published
from codequarry.pipelines.publish.retention import Pruned
from codequarry.pipelines.repository_units import RepositoryEngine
from codequarry.pipelines.scip.stage import ScipReport
from codequarry.pipelines.sources.base_work import drop_base_work, keep_base_work
from codequarry.pipelines.sources.snapshot import Snapshot
from codequarry.pipelines.sources.sources import repositories_to_index
from codequarry.pipelines.store.links import link_to_published
from codequarry.pipelines.store.parts import release_rows
from codequarry.pipelines.store.stage_clock import StageClock
from codequarry.pipelines.store.workspace import Progress, repository_work, silent, working
from codequarry.pipelines.syntax.stage import ChunkReport
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.bundle.refs import RefName
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.settings.load import RepositorySettings, Settings
from codequarry.serving.files.integrity import current_manifest, ref_manifest

if TYPE_CHECKING:  # the settings may not need it: it is imported on demand
    from codequarry.pipelines.adapt.stage import AdaptationReport


@dataclass(frozen=True, slots=True)
class StackedFiles:
    """Files of a delta version."""

    base: str
    """Name of the version below."""
    changed: int
    """Files that changed or came."""
    deleted: int
    chunks: int


@dataclass(frozen=True, slots=True)
class IndexReport:
    """Results of a run."""

    path: Path
    """Folder of the version CURRENT names now."""
    manifest: Manifest
    unchanged: bool
    """True when CURRENT held the same contents already."""
    seconds: dict[str, float]
    """Wall-clock seconds by stage, in the order they ran."""
    cpu_seconds: dict[str, float]
    """CPU seconds by stage, those of the processes it started included."""
    snapshots: tuple[Snapshot, ...]
    chunks: tuple[ChunkReport, ...] = ()
    """Empty, as all that follows, when the run ended after the census."""
    modules: tuple[ModuleReport, ...] = ()
    scip: tuple[ScipReport, ...] = ()
    embeddings: tuple[EmbeddingReport, ...] = ()
    linked_bytes: int = 0
    """Bytes of the version that are hard links to the one before."""
    pruned: Pruned | None = None
    """Versions that retention removed after the publish."""
    reused_shards: int = 0
    """Shards of the version that are links to the one before."""
    adaptation: AdaptationReport | None = None
    """Result of fitting the encoder; None when the settings do not ask for it or there was nothing to do."""
    warnings: tuple[str, ...] = ()
    """Sentences about problems that did not stop the publish."""
    stacked: StackedFiles | None = None
    """Files of a delta version; None for a complete one."""
    files: Mapping[str, Mapping[str, str]] | None = None
    """Digests of the indexed files by repository and path; None where the census in the work folder says them."""
    differences: tuple[str, ...] = ()
    """Settings, tools and encoders that CURRENT was made with otherwise, so that little of it could be taken over."""
    pushed: Pushed | None = None
    """Push to the object storage of the settings; None when there was none."""


def index_repositories(
    settings: Settings,
    progress: Progress = silent,
    *,
    force: bool = False,
    accept: str = "",
    whole: bool = False,
    ref: RefName | None = None,
    stand_ins: Mapping[str, RepositorySettings] | None = None,
) -> IndexReport:
    """Index the repositories of the settings and publish one version that holds exactly them.

    Args:
        settings: Settings of the run.
        progress: Told of the work done.
        force: Rebuild and publish also when sources, settings and tools are those of CURRENT.
        accept: Why regressions against CURRENT are acceptable; kept in the manifest.
        whole: Build a complete version also when CURRENT is a delta version with the same sources.
        ref: Further ref that the version is of, whose work folder is not that of CURRENT; None for CURRENT.
        stand_ins: Places that are read instead of those of the settings, by name of the repository.

    Returns:
        Results of the stages, and the version that CURRENT or the ref names now.

    Raises:
        CodequarryError: See ``errors``; after any error CURRENT is as it was, but for one of the push, which follows.
    """
    report = _index(settings, progress, force=force, accept=accept, whole=whole, ref=ref, stand_ins=stand_ins or {})
    return with_push(report, settings, progress) if ref is None else report


def with_push(report: IndexReport, settings: Settings, progress: Progress) -> IndexReport:
    """Push what CURRENT names to the place of the settings; see `push_published`.

    Args:
        report: Results of the run.
        settings: Settings of the run.
        progress: Told of the objects looked after.

    Returns:
        The results, with those of the push.
    """
    pushed = push_published(settings, progress)
    return report if pushed is None else replace(report, pushed=pushed)


def _index(
    settings: Settings,
    progress: Progress,
    *,
    force: bool,
    accept: str,
    whole: bool,
    ref: RefName | None,
    stand_ins: Mapping[str, RepositorySettings],
) -> IndexReport:
    names, root, clock = list(repositories_to_index(settings)), BundleRoot(settings.bundle.root), StageClock()
    with working(settings), RepositoryEngine(settings, progress, clock) as engine:
        require_space_for_run(root, settings.paths.work)
        current = current_manifest(root) if ref is None else ref_manifest(root, ref)
        if ref is None:
            with clock.time("census"):
                keep_base_work(current, settings)
        snapshots = engine.read(names, stand_ins)
        rebuilt = force or (whole and current is not None and current.stack is not None)
        if current is not None and not rebuilt and is_current(current, snapshots, settings):
            acknowledge_current(root)
            _release(names, current, settings)
            path = root.version(current.version).path
            return IndexReport(path, current, True, clock.seconds, clock.cpu_seconds, snapshots)
        differences = () if current is None else tuple(list_differences(current, settings))
        adaptation = _fit_encoder(settings, progress, clock)
        with clock.time("embed"):  # what is missing is said before the long stages
            require_encoders(settings)
        reports = engine.index(snapshots)
        engine.close()  # its processes hold memory that staging needs
        _embed_more(names, settings, progress, clock)
        with clock.time("stage"):
            staged = stage_bundle(names, settings, progress)
        uses = (*(leg.use for each in reports for leg in each.embeddings.legs), *staged.devices)
        fallbacks = dict.fromkeys(use.sentence() for use in uses if use.fell_back)
        with clock.time("verify"):
            verified = verify_staged(staged, settings, progress, accept=accept or accepted_of(ref))
        with clock.time("publish"):
            if ref is None:
                published = publish_verified(verified, settings.bundle, force=force)
                drop_base_work(settings)
            else:
                published = publish_ref(verified, settings.bundle, ref)
            _release(names, published.manifest, settings)
            limits = limit_store_to_settings(settings, progress)
    return IndexReport(
        published.path, published.manifest, published.unchanged, clock.seconds, clock.cpu_seconds,
        snapshots, tuple(each.chunks for each in reports), tuple(each.modules for each in reports),
        tuple(each.scip for each in reports), tuple(each.embeddings for each in reports),
        published.linked_bytes, published.pruned, staged.reused_shards, adaptation,
        (*verified.warnings, *fallbacks, *limits), differences=differences,
    )  # fmt: skip


def accepted_of(ref: RefName | None) -> str:
    """Return the reason for publishing the version of a ref though it has less than CURRENT; "" for CURRENT itself."""
    return "" if ref is None else f"it is of the ref {ref}, and is not meant to hold what CURRENT holds"


def _release(names: list[str], manifest: Manifest, settings: Settings) -> None:
    """Remove from the work folder what is published and can be made again; Dagster's checks read it, and keep it.

    What stays and is a file of the version too becomes a link to it.
    """
    models = [leg.encoder.model for leg in manifest.legs]
    kept = any(model is None or keeps_vectors(model.kind) for model in models)
    by_text = kept or settings.late_interaction or settings.learned_sparse
    version = BundleRoot(settings.bundle.root).version(manifest.version)
    for name in names:
        work = repository_work(settings.paths.work, name)
        release_rows(work, keep_chunks=by_text)
        link_to_published(work.path, version, manifest)


def limit_store_to_settings(settings: Settings, progress: Progress) -> tuple[str, ...]:
    """Keep the store to its limit after a publish.

    Args:
        settings: Settings of the run.
        progress: Told of the work done.

    Returns:
        A warning where the disk refuses.
    """
    if not settings.store.max_mb:
        return ()
    from codequarry.pipelines.bundle.gc import limit_store

    try:
        limit_store(settings, progress)
    except UnavailableError as error:
        return (f"the store is not kept to [store] max_mb: {error.message}",)
    return ()


def _fit_encoder(settings: Settings, progress: Progress, clock: StageClock) -> AdaptationReport | None:
    """Fit the encoder to the repositories where the settings ask for it."""
    if not settings.embedding.adapt:
        return None
    from codequarry.pipelines.adapt.stage import adapt_encoder

    with clock.time("adapt"):
        return adapt_encoder(settings, progress)


def _embed_more(names: list[str], settings: Settings, progress: Progress, clock: StageClock) -> None:
    """Encode the texts for late interaction and for sparse terms where the settings ask for them."""
    if settings.late_interaction:
        from codequarry.pipelines.indexes.warp.stage import embed_tokens

        with clock.time("tokens"):
            for name in names:
                embed_tokens(name, settings, progress)
    if settings.learned_sparse:
        from codequarry.pipelines.indexes.splade.stage import embed_sparse

        with clock.time("sparse"):
            for name in names:
                embed_sparse(name, settings, progress)
