"""The whole road: repositories in, published version out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from codequarry.pipelines.chunks import ChunkReport, chunk_repository
from codequarry.pipelines.disk_space import require_space_for_run
from codequarry.pipelines.embeddings import EmbeddingReport, embed_repository
from codequarry.pipelines.encoders import encoder_directories, same_encoders, token_encoder_directory
from codequarry.pipelines.modules import ModuleReport, module_repository
from codequarry.pipelines.publication import acknowledge_current
from codequarry.pipelines.publisher import publish_verified
from codequarry.pipelines.ranking_profile import profile_sha256
from codequarry.pipelines.retention import Pruned
from codequarry.pipelines.scip import ScipReport, scip_repository
from codequarry.pipelines.scip_given import given_files, given_identity
from codequarry.pipelines.snapshot import Snapshot, snapshot_repository
from codequarry.pipelines.sources import named
from codequarry.pipelines.sparse_encoders import sparse_directories, sparse_fingerprints
from codequarry.pipelines.staging import stage_bundle
from codequarry.pipelines.tools import tools_in_use
from codequarry.pipelines.verification import verify_staged
from codequarry.pipelines.workspace import Progress, silent, working
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.integrity import current_manifest
from codequarry.schemas.layout import RANKING_FILE, BundleRoot
from codequarry.schemas.manifest import Manifest, SourceEntry
from codequarry.schemas.settings import Settings

if TYPE_CHECKING:  # what the settings may not want is imported when they do
    from codequarry.pipelines.adaptation import AdaptationReport
    from codequarry.pipelines.late_gain import LateReport

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What a run did."""

    path: Path
    """Folder of the version CURRENT names now."""
    manifest: Manifest
    unchanged: bool
    """True when CURRENT held the same contents already."""
    snapshots: tuple[Snapshot, ...]
    chunks: tuple[ChunkReport, ...]
    modules: tuple[ModuleReport, ...]
    scip: tuple[ScipReport, ...]
    embeddings: tuple[EmbeddingReport, ...]
    seconds: dict[str, float]
    """Wall-clock seconds by stage, in the order they ran."""
    cpu_seconds: dict[str, float]
    """CPU seconds by stage, those of the processes it started included."""
    linked_bytes: int = 0
    """Bytes of the version that are hard links to the one before."""
    pruned: Pruned | None = None
    """What retention removed after the publish."""
    reused_shards: int = 0
    """Shards of the version that are links to the one before."""
    adaptation: AdaptationReport | None = None
    """What came of fitting the encoder, where the settings want that and there was something to do."""
    late: LateReport | None = None
    """What came of measuring late interaction, where the settings want that and there was something to do."""


def index_repositories(
    settings: Settings, progress: Progress = silent, *, force: bool = False, accept: str = ""
) -> IndexReport:
    """Index the repositories of the settings and publish one version that holds exactly them.

    force: rebuild and publish also when sources, settings and tools are those of CURRENT.
    accept: why regressions against CURRENT are well; kept in the manifest.

    Raises CodequarryError: see ``errors``; whatever is raised, CURRENT is as it was.
    """
    repositories = named(settings.sources.repositories)
    if not repositories:
        raise InvalidArgumentError(
            "no repository to index", suggestion="give a path, or list [[sources.repositories]] in the settings file"
        )
    seconds: dict[str, float] = {}
    cpu_seconds: dict[str, float] = {}

    def timed(stage: str, work: Callable[[], _T]) -> _T:
        started, cpu_started = time.perf_counter(), _cpu_seconds()
        try:
            return work()
        finally:
            seconds[stage] = seconds.get(stage, 0.0) + time.perf_counter() - started
            cpu_seconds[stage] = cpu_seconds.get(stage, 0.0) + _cpu_seconds() - cpu_started

    root = BundleRoot(settings.bundle.root)
    with working(settings):
        require_space_for_run(settings)
        snapshots = tuple(
            timed("census", lambda each=each: snapshot_repository(each, settings, progress))
            for each in repositories.values()
        )
        current = current_manifest(root)
        if current is not None and not force and is_current(current, snapshots, settings):
            acknowledge_current(root)
            path = root.version(current.version).path
            return IndexReport(path, current, True, snapshots, (), (), (), (), seconds, cpu_seconds)
        adaptation = late = None
        if settings.embedding.adapt:
            from codequarry.pipelines.adaptation import adapt_encoder

            adaptation = timed("adapt", lambda: adapt_encoder(settings, progress))
        timed("embed", lambda: _require_encoders(settings))  # what is missing is said before the long stages
        chunks = tuple(
            timed("chunk", lambda name=name: chunk_repository(name, settings, progress)) for name in repositories
        )
        modules = tuple(
            timed("module", lambda name=name: module_repository(name, settings, progress)) for name in repositories
        )
        scip = tuple(
            timed("scip", lambda name=name: scip_repository(name, settings, progress)) for name in repositories
        )
        embeddings = tuple(
            timed("embed", lambda name=name: embed_repository(name, settings, progress)) for name in repositories
        )
        if settings.late_interaction:
            from codequarry.pipelines.late_gain import measure_late
            from codequarry.pipelines.warp_stage import embed_tokens

            for name in repositories:
                timed("tokens", lambda name=name: embed_tokens(name, settings, progress))
            late = timed("late", lambda: measure_late(settings, progress))
        if settings.learned_sparse:
            from codequarry.pipelines.splade_stage import embed_sparse

            for name in repositories:
                timed("sparse", lambda name=name: embed_sparse(name, settings, progress))
        staged = timed("stage", lambda: stage_bundle(list(repositories), settings, progress))
        timed("verify", lambda: verify_staged(settings, progress, accept=accept))
        published = timed("publish", lambda: publish_verified(settings, force=force))
    return IndexReport(
        published.path, published.manifest, published.unchanged, snapshots, chunks, modules, scip,
        embeddings, seconds, cpu_seconds,
        published.linked_bytes, published.pruned, staged.reused_shards, adaptation, late,
    )  # fmt: skip


def _require_encoders(settings: Settings) -> None:
    """See that every encoder of the settings can be had; raises what the stages would."""
    encoder_directories(settings)
    if settings.late_interaction:
        token_encoder_directory(settings)
    if settings.learned_sparse:
        sparse_directories(settings)


def _cpu_seconds() -> float:
    """Of this process and of those it started that have ended."""
    return sum(os.times()[:4])


def is_current(current: Manifest, snapshots: tuple[Snapshot, ...], settings: Settings) -> bool:
    """True when the same sources, read with the same settings and tools, made this version."""
    held = {source.name: (_identity(source), _given(source)) for source in current.sources}
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
        and _same_sparse(current, settings)
    )


def _same_sparse(current: Manifest, settings: Settings) -> bool:
    """Whether a version's learned sparse index is by the encoders of the settings."""
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


def _given(source: SourceEntry) -> list[tuple[str, str]]:
    return [(entry.given, entry.sha256) for entry in source.scip if entry.given]
