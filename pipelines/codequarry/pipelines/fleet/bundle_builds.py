"""The building of one bundle of a fleet: indexed by ordinary code in folders of its own, and put into the store.

What cannot be read or built goes on as it was. A repository that cannot be read is carried by the commit that the fleet
serves, where it or its clone still has that; else the whole bundle is carried in its last version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from codequarry.pipelines.fleet.fleet_store import time_now
from codequarry.pipelines.git.remote import clone_folder
from codequarry.pipelines.publish.remote.pull import pull_version
from codequarry.pipelines.publish.remote.push import Pushed, push_version
from codequarry.pipelines.publish.remote.store import NamedCurrent, RemoteStore
from codequarry.pipelines.run import index_repositories
from codequarry.pipelines.sources.sources import open_source
from codequarry.pipelines.stack.build import NotStacked, index_changes
from codequarry.pipelines.store.links import encoder_files, roots_beside
from codequarry.pipelines.store.workspace import Progress
from codequarry.schemas.bundle.layout import BundleRoot, Current
from codequarry.schemas.bundle.manifest import Manifest, SourceEntry
from codequarry.schemas.errors import (
    BusyError,
    CodequarryError,
    IntegrityError,
    NotFoundError,
    PublishError,
    SourceError,
)
from codequarry.schemas.fleet.generation import BundleEntry, FailedAttempt, RepositoryEntry
from codequarry.schemas.git_urls import parse_git_url
from codequarry.schemas.settings.load import RepositorySettings, Settings
from codequarry.serving.files.integrity import base_of, file_sha256

Outcome = Literal["built", "delta", "unchanged", "carried"]


@dataclass(frozen=True, slots=True)
class BuildMode:
    """Options of a build that every bundle has in common."""

    delta: bool = False
    """Build a delta version where that can be."""
    whole: bool = False
    """Build a complete version also where the last one is a delta version of the same sources."""
    accept: str = ""
    """Reason why regressions against the last version of a bundle are acceptable; kept in its manifest."""
    renamed: bool = False
    """Build again what is there already, for another name: another builder put a version of that name."""


@dataclass(frozen=True, slots=True)
class BuiltBundle:
    """Result of building a bundle."""

    name: str
    outcome: Outcome
    entry: BundleEntry | None
    """Entry in the next generation; None for a new bundle that could not be built."""
    pushed: Pushed | None = None
    failed: Mapping[str, FailedAttempt] = field(default_factory=dict[str, FailedAttempt])
    """Failures of its repositories by name: carried ones, and new ones that are left out."""
    warnings: tuple[str, ...] = ()

    @property
    def error(self) -> str:
        """Message of the failure of the whole bundle; "" when it was built."""
        return self.entry.failed.error if self.entry is not None and self.entry.failed is not None else ""


@dataclass(frozen=True, slots=True)
class BundleTask:
    """A bundle that is to be built."""

    name: str
    repositories: Mapping[str, RepositorySettings]
    before: BundleEntry | None
    """Its entry in the current generation."""
    attempts: Mapping[str, FailedAttempt]
    """Repositories that were left out of it so far."""


def settings_of_bundle(settings: Settings, name: str, repositories: Iterable[RepositorySettings]) -> Settings:
    """Return the settings by which a bundle is indexed: its repositories, in folders of its own.

    Args:
        settings: Settings of the fleet.
        name: Name of the bundle.
        repositories: Its repositories.

    Returns:
        The settings.
    """
    root = settings.fleet.bundle_root(name)
    return settings.model_copy(
        update={
            "paths": settings.paths.model_copy(update={"work": root.with_name("work")}),
            "bundle": settings.bundle.model_copy(update={"root": root, "push_to": ""}),
            "sources": settings.sources.model_copy(update={"repositories": tuple(repositories)}),
        }
    )


def build_bundle(
    task: BundleTask, settings: Settings, store: RemoteStore, progress: Progress, mode: BuildMode
) -> BuiltBundle:
    """Index a bundle and put its version into the store, unless the fleet has it.

    Args:
        task: The bundle.
        settings: Settings of the fleet.
        store: Place of the fleet.
        progress: Told of the work done.
        mode: Kind of the version, and regressions that are accepted.

    Returns:
        The entry of the bundle in the next generation: a new one, or the one before.

    Raises:
        BusyError: Another process builds it.
        RemoteError: The store does not answer.
        UnavailableError: The store refuses.
    """
    own = settings_of_bundle(settings, task.name, task.repositories.values())
    _fetch_last_version(task, own, store, progress)
    try:
        indexed = _index(task, own, progress, mode)
    except BusyError:
        raise
    except CodequarryError as error:
        return carry_bundle(task, error.message)
    manifest = indexed.manifest
    if task.before is not None and (manifest.digest, own.index_hash()) == (
        task.before.digest,
        task.before.settings_sha256,
    ):
        entry, pushed = _with_failures(task.before, indexed.failed), None
    else:
        try:
            pushed = push_version(BundleRoot(own.bundle.root), store, manifest.version, progress, keep_current=True)
        except (IntegrityError, PublishError) as error:
            if mode.renamed or not _is_name_taken(manifest, own, store):
                return carry_bundle(task, error.message)
            return build_bundle(task, settings, store, progress, replace(mode, renamed=True))
        entry = _entry(manifest, own, task.before, indexed.failed)
    outcome: Outcome = "unchanged" if pushed is None else "built" if manifest.stack is None else "delta"
    return BuiltBundle(task.name, outcome, entry, pushed, indexed.failed, indexed.warnings)


def carry_bundle(task: BundleTask, message: str) -> BuiltBundle:
    """Return the result of a bundle that goes on as it was.

    Args:
        task: The bundle.
        message: Why.

    Returns:
        The entry before, with the failure; its new repositories are left out.
    """
    held = task.before.repositories if task.before is not None else {}
    left_out = {name: _attempt(message, task.attempts.get(name)) for name in task.repositories if name not in held}
    if task.before is None:
        return BuiltBundle(task.name, "carried", None, failed=left_out)
    entry = task.before.model_copy(update={"failed": _attempt(message, task.before.failed)})
    return BuiltBundle(task.name, "carried", entry, failed=left_out)


def _is_name_taken(manifest: Manifest, own: Settings, store: RemoteStore) -> bool:
    """Return whether another builder put the same contents in the same second, so that names are equal."""
    try:
        there = store.read_manifest(manifest.version)
    except NotFoundError:
        return False
    return there != BundleRoot(own.bundle.root).version(manifest.version).manifest.read_bytes()


@dataclass(frozen=True, slots=True)
class _IndexedBundle:
    manifest: Manifest
    failed: Mapping[str, FailedAttempt]
    warnings: tuple[str, ...]


def _fetch_last_version(task: BundleTask, own: Settings, store: RemoteStore, progress: Progress) -> None:
    """Take the version that the fleet serves, where nothing was built here: what is unchanged is not built again."""
    if task.before is None or BundleRoot(own.bundle.root).current.exists():
        return
    line = Current(task.before.version, task.before.manifest_sha256)
    encoders = encoder_files(roots_beside(BundleRoot(own.bundle.root), own.fleet))
    with suppress(CodequarryError):  # then it is built from nothing
        pull_version(store, own, line.version, progress, named=NamedCurrent(line, ""), beside=encoders)


def _index(task: BundleTask, own: Settings, progress: Progress, mode: BuildMode) -> _IndexedBundle:
    try:
        tried = index_changes(own, progress, accept=mode.accept) if mode.delta and not mode.renamed else None
        if tried is not None and not isinstance(tried, NotStacked):
            return _IndexedBundle(tried.manifest, {}, tried.warnings)
        report = index_repositories(own, progress, accept=mode.accept, whole=mode.whole, force=mode.renamed)
        reason = (f"no delta version: {tried.reason}",) if tried is not None else ()
        return _IndexedBundle(report.manifest, {}, (*report.warnings, *reason))
    except SourceError as error:
        unreadable = _unreadable(own)
        if not unreadable:
            raise
        held = task.before.repositories if task.before is not None else {}
        stand_ins = {
            name: _stand_in(task.repositories[name], held[name], own, error) for name in unreadable if name in held
        }
    left_out = [name for name in unreadable if name not in held]
    readable = [each for each in own.sources.repositories if each.name not in left_out]
    if not readable:
        raise SourceError(next(iter(unreadable.values())), suggestion="see the messages about its repositories")
    own = settings_of_bundle(own, task.name, readable)
    report = index_repositories(own, progress, accept=mode.accept, force=mode.renamed, stand_ins=stand_ins)
    failed = {name: _attempt(unreadable[name], held[name].failed) for name in stand_ins}
    failed |= {name: _attempt(unreadable[name], task.attempts.get(name)) for name in left_out}
    return _IndexedBundle(report.manifest, failed, report.warnings)


def _unreadable(own: Settings) -> dict[str, str]:
    """Return the messages of the repositories that cannot be listed, by name."""
    found: dict[str, str] = {}
    for repository in own.sources.repositories:
        try:
            open_source(repository, own)
        except SourceError as error:
            found[repository.name] = error.message
    return found


def _stand_in(
    repository: RepositorySettings, entry: RepositoryEntry, own: Settings, error: SourceError
) -> RepositorySettings:
    """Return the place where the commit that the fleet serves can still be read.

    Args:
        repository: Repository that cannot be read.
        entry: Its entry in the current generation.
        own: Settings of the bundle.
        error: Raised when there is no such place.

    Returns:
        The repository, or its clone in the store, at that commit.
    """
    if not entry.commit or entry.dirty:
        raise error
    folder = clone_folder(parse_git_url(repository.url).public, own.paths.store) if repository.url else repository.path
    found = RepositorySettings(path=folder, ref=entry.commit, name=repository.name)
    try:
        open_source(found, own)
    except SourceError:
        raise error from None
    return found


def _attempt(message: str, before: FailedAttempt | None) -> FailedAttempt:
    return FailedAttempt(since=before.since if before is not None else time_now(), error=message)


def _with_failures(entry: BundleEntry, failed: Mapping[str, FailedAttempt]) -> BundleEntry:
    repositories = {
        name: each.model_copy(update={"failed": failed.get(name)}) for name, each in entry.repositories.items()
    }
    return entry.model_copy(update={"failed": None, "repositories": repositories})


def _entry(
    manifest: Manifest, own: Settings, before: BundleEntry | None, failed: Mapping[str, FailedAttempt]
) -> BundleEntry:
    root = BundleRoot(own.bundle.root)
    size = manifest.size_bytes + (base_of(root, manifest).size_bytes if manifest.stack is not None else 0)
    held = before.repositories if before is not None else {}
    return BundleEntry(
        version=manifest.version,
        manifest_sha256=file_sha256(root.version(manifest.version).manifest),
        digest=manifest.digest,
        base=manifest.stack.base if manifest.stack is not None else None,
        encoders=tuple(leg.encoder.fingerprint for leg in manifest.legs),
        settings_sha256=manifest.settings_sha256,
        chunks=manifest.counts.chunks,
        size_bytes=size,
        repositories={
            source.name: _repository(source, manifest.created, held.get(source.name), failed.get(source.name))
            for source in manifest.sources
        },
    )


def _repository(
    source: SourceEntry, created: str, before: RepositoryEntry | None, failed: FailedAttempt | None
) -> RepositoryEntry:
    same = before is not None and before.tree_sha256 == source.tree_sha256
    return RepositoryEntry(
        commit=source.commit,
        ref=source.ref,
        dirty=source.dirty,
        tree_sha256=source.tree_sha256,
        chunks=source.chunks,
        indexed=before.indexed if before is not None and same else created,
        failed=failed,
    )
