"""The whole road: repositories in, published version out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from codequarry.pipelines.chunks import ChunkReport, chunk_repository
from codequarry.pipelines.disk_space import require_space_for_run
from codequarry.pipelines.embeddings import EmbeddingReport, embed_repository
from codequarry.pipelines.encoders import same_encoder
from codequarry.pipelines.modules import ModuleReport, module_repository
from codequarry.pipelines.publication import acknowledge_current
from codequarry.pipelines.publisher import publish_verified
from codequarry.pipelines.retention import Pruned
from codequarry.pipelines.scip import ScipReport, scip_repository
from codequarry.pipelines.scip_given import given_files, given_identity
from codequarry.pipelines.snapshot import Snapshot, snapshot_repository
from codequarry.pipelines.sources import named
from codequarry.pipelines.staging import stage_bundle
from codequarry.pipelines.tools import tools_in_use
from codequarry.pipelines.verification import verify_staged
from codequarry.pipelines.warp_stage import embed_tokens
from codequarry.pipelines.workspace import Progress, silent, working
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.integrity import current_manifest
from codequarry.schemas.layout import BundleRoot
from codequarry.schemas.manifest import Manifest, SourceEntry
from codequarry.schemas.settings import Settings

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
    linked_bytes: int = 0
    """Bytes of the version that are hard links to the one before."""
    pruned: Pruned | None = None
    """What retention removed after the publish."""
    reused_shards: int = 0
    """Shards of the version that are links to the one before."""


def index_repositories(settings: Settings, progress: Progress = silent, *, force: bool = False) -> IndexReport:
    """Index the repositories of the settings and publish one version that holds exactly them.

    force: rebuild and publish also when sources, settings and tools are those of CURRENT.

    Raises CodequarryError: see ``errors``; whatever is raised, CURRENT is as it was.
    """
    repositories = named(settings.sources.repositories)
    if not repositories:
        raise InvalidArgumentError(
            "no repository to index", suggestion="give a path, or list [[sources.repositories]] in the settings file"
        )
    seconds: dict[str, float] = {}

    def timed(stage: str, work: Callable[[], _T]) -> _T:
        started = time.perf_counter()
        try:
            return work()
        finally:
            seconds[stage] = seconds.get(stage, 0.0) + time.perf_counter() - started

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
            return IndexReport(root.version(current.version).path, current, True, snapshots, (), (), (), (), seconds)
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
        if settings.warp.enabled:
            for name in repositories:
                timed("tokens", lambda name=name: embed_tokens(name, settings, progress))
        staged = timed("stage", lambda: stage_bundle(list(repositories), settings, progress))
        timed("verify", lambda: verify_staged(settings, progress))
        published = timed("publish", lambda: publish_verified(settings, force=force))
    return IndexReport(
        published.path, published.manifest, published.unchanged, snapshots, chunks, modules, scip,
        embeddings, seconds,
        published.linked_bytes, published.pruned, staged.reused_shards,
    )  # fmt: skip


def is_current(current: Manifest, snapshots: tuple[Snapshot, ...], settings: Settings) -> bool:
    """True when the same sources, read with the same settings and tools, made this version."""
    held = {source.name: (_identity(source), _given(source)) for source in current.sources}
    read = {
        snapshot.name: (_identity(snapshot), given_identity(given_files(snapshot.name, settings)))
        for snapshot in snapshots
    }
    made_alike = current.settings_sha256 == settings.index_hash() and current.tools == tools_in_use(settings)
    return held == read and made_alike and same_encoder(current.encoder.fingerprint, settings)


def _identity(source: SourceEntry | Snapshot) -> tuple[object, ...]:
    return (source.url, source.ref, source.commit, source.dirty, source.tree_sha256, source.classes, source.skipped)


def _given(source: SourceEntry) -> list[tuple[str, str]]:
    return [(entry.given, entry.sha256) for entry in source.scip if entry.given]
