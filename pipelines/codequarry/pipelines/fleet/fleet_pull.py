"""Pull of a share of a fleet into bundle roots of this machine, switched by one file.

Each version is verified byte for byte and added to the bundle root of its bundle. Bundles of a fleet have the same
encoder, whose files travel once and are links to one another. When all versions are there, ``fleet.json`` is replaced;
only then, versions that it no longer names go, one before the current one and those that readers hold apart.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.fleet.fleet_store import FleetStore, KnownGeneration, time_now
from codequarry.pipelines.publish.publish import named_by, publishing
from codequarry.pipelines.publish.remote.pull import Pulled, pull_version
from codequarry.pipelines.publish.remote.store import NamedCurrent
from codequarry.pipelines.publish.retention import prune, remove_version
from codequarry.pipelines.store.access import make_bundle_root, make_folder_for
from codequarry.pipelines.store.durable import new_file, write_all
from codequarry.pipelines.store.links import encoder_files
from codequarry.pipelines.store.workspace import Progress, exclusive, silent
from codequarry.schemas.errors import BusyError, CodequarryError, NoBundleError, PublishError, UnavailableError
from codequarry.schemas.fleet.generation import FleetManifest, is_bundle_name
from codequarry.schemas.fleet.replica import HeldGeneration, ReplicaRoot, version_line
from codequarry.schemas.fleet.shares import WHOLE, Share
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.schemas.settings.load import Settings
from codequarry.schemas.wording import counted

_KEPT_ON_THE_WAY = 1_000
"""Versions that stay while a generation arrives: what ``fleet.json`` names must not go."""


@dataclass(frozen=True, slots=True)
class PulledFleet:
    """Result of a pull."""

    held: HeldGeneration
    unchanged: bool
    """True when the same generation and share were held before."""
    bundles: dict[str, Pulled]
    """Result of the pull of each bundle whose version was not here."""

    @property
    def received_bytes(self) -> int:
        """Bytes of objects that travelled."""
        return sum(each.received_bytes for each in self.bundles.values())


def pull_fleet(
    fleet: FleetStore,
    root: ReplicaRoot,
    settings: Settings,
    share: Share = WHOLE,
    progress: Progress = silent,
    tell: Callable[[str, Pulled], None] = lambda _bundle, _pulled: None,
) -> PulledFleet:
    """Take the bundles of a share, in the versions of the current generation.

    After any error ``fleet.json`` and the versions it names are as they were; what came is used by the next pull.

    Args:
        fleet: Place of the fleet.
        root: Folder of the replica.
        settings: Settings of the gates and of the readers of versions.
        share: Bundles to hold.
        progress: Told of the megabytes received.
        tell: Told of each bundle whose version came.

    Returns:
        The generation that is held now.

    Raises:
        NoBundleError: There is no fleet yet.
        NotFoundError: A version is missing.
        IntegrityError: Bytes differ from what generation and manifests say.
        PublishError: As `pull_version` does, the disk refuses, or the share is larger than the settings allow.
        BusyError: Another process pulls into this folder.
        RemoteError: The store does not answer.
        UnavailableError: It refuses.
    """
    _make_folders(root, settings)
    with exclusive(root.path / ".lock", "pulling the fleet"):
        known = fleet.require_current()
        before = _held_before(root)
        if before is not None and (before.sha256, before.share, before.url) == (
            known.sha256,
            str(share),
            fleet.store.url,
        ):
            return PulledFleet(before, True, {})
        came: dict[str, Pulled] = {}
        own = share.select(known.manifest.bundles)
        _check_size(known.manifest, share, own, settings.fleet.replica_max_mb, before)
        encoders = encoder_files(root.bundle(name) for name in own)
        for name in own:
            pulled = _pull_bundle(fleet, root, settings, known.manifest, name, encoders, progress)
            if pulled is not None:
                came[name] = pulled
                encoders |= encoder_files([root.bundle(name)])
                tell(name, pulled)
        held = _switch(root, fleet, known, share)
        _remove_old(root, held, settings)
    return PulledFleet(held, False, came)


@contextmanager
def sole_follower(root: ReplicaRoot, settings: Settings, wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Let no other process follow a fleet into the folder of a replica for the block: two would undo one another.

    Args:
        root: Folder of the replica.
        settings: Settings that say who may read it.
        wait: Told that another process does, before waiting for it to end; None to raise instead.

    Yields:
        Nothing.

    Raises:
        BusyError: Another process does.
        UnavailableError: The folder cannot be made.
    """
    _make_folders(root, settings)
    lock, what = root.path / ".following", f"following a fleet into {root.path}"
    with ExitStack() as held:
        try:
            held.enter_context(exclusive(lock, what))
        except BusyError as error:
            if wait is None:
                raise
            wait(error.message)
            held.enter_context(exclusive(lock, what, wait=True))
        yield


def _make_folders(root: ReplicaRoot, settings: Settings) -> None:
    for folder in (root.path, root.bundles):
        make_folder_for(folder, settings.bundle.readable_by)


def _held_before(root: ReplicaRoot) -> HeldGeneration | None:
    try:
        return root.read()
    except NoBundleError:
        return None
    except UnavailableError:  # a damaged file: it is written anew
        return None


def _check_size(
    manifest: FleetManifest, share: Share, own: list[str], max_mb: int, before: HeldGeneration | None
) -> None:
    """Raise PublishError where the bundles of a share have more megabytes than a replica may have; 0 for no limit."""
    size = sum(manifest.bundles[name].size_bytes for name in own) / 1e6
    if not max_mb or size <= max_mb:
        return
    held = f"; generation {before.fleet.generation} stays" if before is not None else ""
    raise PublishError(
        f"share {share} of generation {manifest.generation} has {size:,.0f} MB in {counted(len(own), 'bundle')}, and "
        f"[fleet] replica_max_mb allows {max_mb:,}{held}",
        suggestion=f"allow more, or hold a smaller share, such as {share.number}/{2 * share.of}",
    )


def _pull_bundle(
    fleet: FleetStore,
    root: ReplicaRoot,
    settings: Settings,
    manifest: FleetManifest,
    name: str,
    encoders: Mapping[str, Path],
    progress: Progress,
) -> Pulled | None:
    """Add the version of a bundle to its bundle root; None when it was current there."""
    line, bundle = version_line(manifest.bundles[name]), root.bundle(name)
    if bundle.current.exists() and named_by(bundle) == line and bundle.version(line.version).path.is_dir():
        return None
    own = settings.bundle.model_copy(
        update={"root": bundle.path, "push_to": "", "keep_versions": _KEPT_ON_THE_WAY, "keep_days": 0.0}
    )
    make_bundle_root(own)
    own_settings = settings.model_copy(update={"bundle": own})
    named = NamedCurrent(line, "")
    return pull_version(fleet.store, own_settings, line.version, progress, named=named, beside=encoders)


def _switch(root: ReplicaRoot, fleet: FleetStore, known: KnownGeneration, share: Share) -> HeldGeneration:
    """Let ``fleet.json`` say that a generation is held."""
    held = HeldGeneration(
        url=fleet.store.url, sha256=known.sha256, share=str(share), pulled=time_now(), fleet=known.manifest
    )
    try:
        with new_file(root.file) as descriptor:
            write_all(descriptor, held.model_dump_json(indent=1).encode() + b"\n")
    except OSError as error:
        raise_if_exhausted(error, f"{root.file} cannot be written now")
        raise PublishError(
            f"{root.file} cannot be written: {error.strerror}",
            suggestion="free disk space or check permissions, then pull again; the generation before is held",
        ) from error
    return held


def _remove_old(root: ReplicaRoot, held: HeldGeneration, settings: Settings) -> None:
    """Remove old versions, and bundles that the share does not hold; what readers hold stays until the next pull."""
    for folder in sorted(each for each in root.bundles.iterdir() if is_bundle_name(each.name)):
        bundle = root.bundle(folder.name)
        with suppress(CodequarryError, OSError), publishing(bundle):
            if folder.name in held.own_bundles:
                prune(bundle, settings.bundle.model_copy(update={"keep_versions": 2, "keep_days": 0.0}))
                continue
            for name in bundle.version_names():
                remove_version(bundle, name)
        if folder.name not in held.own_bundles and not bundle.version_names():
            shutil.rmtree(folder, ignore_errors=True)
