"""Atomic and durable change of CURRENT to a version, wherever the version comes from.

The order allows for a loss of power at any point. Every file of the version is synced before the rename that makes it a
version, the folder after. CURRENT is written aside, synced and renamed, and its folder synced. A reader sees the old or
the new version; once this returns, the new one survives. ``.publishing`` names the version from before its rename until
after the flip. The next run can thus tell a version that was never acknowledged from one that was rolled back.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codequarry.pipelines.bundle.folder import using
from codequarry.pipelines.publish.retention import Pruned, prune, remove_version, settle
from codequarry.pipelines.store.access import let_read
from codequarry.pipelines.store.durable import sync, sync_way_to, write_line
from codequarry.pipelines.store.links import link_unchanged
from codequarry.pipelines.store.workspace import exclusive
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot, Current
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.errors import CodequarryError, IntegrityError, PublishError, ResourcesError
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.schemas.settings.bundle import BundleSettings, Readers
from codequarry.schemas.trust.state_folders import require_own_links
from codequarry.serving.files.integrity import base_of, current_manifest, file_sha256, read_manifest, verify

if TYPE_CHECKING:  # rollback and retention publish without the gates
    from codequarry.pipelines.gates.verify import Verified


@dataclass(frozen=True, slots=True)
class Published:
    """The version CURRENT names now."""

    path: Path
    manifest: Manifest
    unchanged: bool
    """True when CURRENT already held the same contents, and nothing was published."""
    linked_bytes: int
    """Bytes the version shares with the one before."""
    pruned: Pruned | None
    """Result of retention; None when nothing was published or it failed, which never undoes a publish."""


@contextmanager
def publishing(root: BundleRoot) -> Iterator[None]:
    """Hold the publish lock for the block, which alone may change CURRENT and the versions.

    Args:
        root: Bundle root.

    Yields:
        Nothing.

    Raises:
        BusyError: Another process holds the lock.
        UntrustedError: Links lead out of the folder that holds the root.
    """
    require_own_links([root.path])
    with exclusive(root.lock, "publishing"):
        yield


def publish_verified(verified: Verified, bundle: BundleSettings, *, force: bool = False) -> Published:
    """Publish the version that passed verification; a version equal to CURRENT is dropped instead.

    After an error CURRENT is as it was.

    Args:
        verified: The version.
        bundle: Settings of the bundle.
        force: Publish also when CURRENT holds the same contents.

    Returns:
        The version that is current now.

    Raises:
        PublishError: The version changed since it was verified, or the disk refuses.
        BusyError: Another process is publishing.
    """
    root, staged = BundleRoot(bundle.root), BundlePaths(verified.path)
    with publishing(root), using(staged.path):
        manifest = read_verified(verified, "CURRENT is unchanged")
        current = current_manifest(root)
        # Equal contents that other tools made are published too: CURRENT would never say that these tools made it, and
        # each run would build it again.
        if current is None or (current.digest, current.tools) != (manifest.digest, manifest.tools) or force:
            return publish_staged(bundle, staged, manifest)
        shutil.rmtree(staged.path)
        settle_root(root)
        return Published(root.version(current.version).path, current, True, 0, None)


def read_verified(verified: Verified, state: str) -> Manifest:
    """Return the manifest of a version that passed verification and was not changed since.

    Args:
        verified: The version.
        state: Words about what stays as it was, for the message.

    Returns:
        Its manifest.

    Raises:
        PublishError: The version is gone, or another one.
    """
    staged = BundlePaths(verified.path)
    if not staged.manifest.is_file() or file_sha256(staged.manifest) != verified.manifest_sha256:
        raise PublishError("the verified version is gone or was changed since", suggestion=f"index again; {state}")
    return read_manifest(staged)


def publish_staged(
    bundle: BundleSettings, staged: BundlePaths, manifest: Manifest, *, becomes_current: bool = True
) -> Published:
    """Publish a version that was verified, in the order the module describes, then prune.

    The caller holds the publish lock and the staging folder. When the version does not become current, its publish mark
    is removed as soon as the version is durable: from then on it is like a version that was rolled back.

    Args:
        bundle: Settings of the bundle.
        staged: Paths of the staged version.
        manifest: Its manifest.
        becomes_current: False leaves CURRENT, which has to name a version, and prunes nothing.

    Returns:
        The published version.

    Raises:
        PublishError: There is such a version, or the disk refuses; CURRENT is as it was, the staging folder gone.
    """
    root = BundleRoot(bundle.root)
    if manifest.stack is not None:
        _require_base(root, manifest)
    path, linked_bytes = _publish(root, staged, manifest, bundle.readable_by, becomes_current=becomes_current)
    return Published(path, manifest, False, linked_bytes, _prune(root, bundle) if becomes_current else None)


def _require_base(root: BundleRoot, manifest: Manifest) -> None:
    """Raise PublishError when the base of a delta version went, or was damaged, while the version was made."""
    try:
        base_of(root, manifest)
    except IntegrityError as error:
        raise PublishError(error.message, suggestion="index again; CURRENT is unchanged") from error


def make_current(root: BundleRoot, version: str) -> None:
    """Let CURRENT name a version that is there and whole; the caller holds the publish lock.

    Args:
        root: Bundle root.
        version: Name of the version.

    Raises:
        PublishError: The disk refuses; CURRENT is as it was, or the error says that it may not be.
    """
    previous = named_by(root)
    try:
        write_line(root.current, Current(version, file_sha256(root.version(version).manifest)))
    except OSError as error:
        unchanged = _taken_back(root, version, previous)
        if unchanged:
            raise_if_exhausted(error, f"making {version} current failed")
        raise PublishError(
            f"making {version} current failed: {error}",
            suggestion="fix the disk; " + ("CURRENT is unchanged" if unchanged else "see `codequarry versions`"),
        ) from error


def acknowledge_current(root: BundleRoot) -> None:
    """Finish a publish that was killed after its flip, for a run that would publish the same again.

    Its flip may not be on the disk yet, and must be before anybody is told that the version is current.

    Args:
        root: Bundle root.

    Raises:
        BusyError: Another process is publishing.
        PublishError: The disk refuses.
    """
    with publishing(root):
        settle_root(root)


def settle_root(root: BundleRoot) -> None:
    """Remove what killed publishes left, and make the flip of a crashed publish durable.

    The caller holds the publish lock.

    Args:
        root: Bundle root.

    Raises:
        PublishError: The disk refuses.
    """
    try:
        settle(root)
    except OSError as error:
        raise_if_exhausted(error, f"cleaning up under {root.path} failed")
        raise PublishError(
            f"cleaning up under {root.path} failed: {error}",
            suggestion="free disk space or fix the disk, then index again; CURRENT is unchanged",
        ) from error


def _publish(
    root: BundleRoot, staged: BundlePaths, manifest: Manifest, readers: Readers, *, becomes_current: bool
) -> tuple[Path, int]:
    target = root.version(manifest.version)
    if target.path.exists():
        raise PublishError(f"version {manifest.version} exists already", suggestion="index again; CURRENT is unchanged")
    previous = named_by(root)
    try:
        with suppress(CodequarryError):
            settle(root)
        linked = link_unchanged(root, staged, manifest)
        verify(staged, manifest, deep=False)
        let_read(staged.path, readers)
        _sync_version(staged, manifest, linked)
        if previous is None:
            sync_way_to(root)
        line = Current(manifest.version, file_sha256(staged.manifest))
        write_line(root.publishing, line)
        os.rename(staged.path, target.path)
        sync(root.versions)
        if becomes_current:
            write_line(root.current, line)
        root.publishing.unlink()
        sync(root.path)
    except OSError as error:
        # After a failed fsync the pages may be gone though later calls succeed: never retry, discard the whole folder.
        shutil.rmtree(staged.path, ignore_errors=True)
        unchanged = _taken_back(root, manifest.version, previous)
        if unchanged:
            with suppress(OSError, CodequarryError):
                if target.path.exists():
                    remove_version(root, manifest.version)
                settle(root)
            raise_if_exhausted(error, f"publishing {manifest.version} failed")
        raise PublishError(
            f"publishing {manifest.version} failed: {error}",
            suggestion="free disk space or fix the disk, then run again; "
            + ("CURRENT is unchanged" if unchanged else "CURRENT names the new version, and may not survive a crash"),
        ) from error
    return target.path, sum(entry.size_bytes for entry in manifest.files if entry.path in linked)


def _sync_version(staged: BundlePaths, manifest: Manifest, linked: frozenset[str]) -> None:
    """Sync every file and folder except links, whose files were synced when they were first published."""
    for entry in manifest.files:
        if entry.path not in linked:
            sync(staged.path / entry.path)
    sync(staged.manifest)
    for folder in sorted({(staged.path / entry.path).parent for entry in manifest.files} | {staged.path}):
        sync(folder)


def _prune(root: BundleRoot, bundle: BundleSettings) -> Pruned | None:
    try:
        return prune(root, bundle)
    except (CodequarryError, OSError):
        return None


def named_by(root: BundleRoot) -> Current | None:
    """Return what CURRENT names.

    Args:
        root: Bundle root.

    Returns:
        Its content; None when there is none, or no valid line.

    Raises:
        ResourcesError: It cannot be read now.
    """
    try:
        return root.read_current()
    except ResourcesError:
        raise
    except CodequarryError:
        return None


def _taken_back(root: BundleRoot, version: str, previous: Current | None) -> bool:
    """Restore CURRENT after a failure that may have come after its rename, and return whether it is what it was."""
    try:
        named = named_by(root)
    except ResourcesError:
        return False
    if named is None or named.version != version:
        return True
    try:
        if previous is None:
            root.current.unlink()
            sync(root.path)
        else:
            write_line(root.current, previous)
    except OSError:
        return False
    return True
