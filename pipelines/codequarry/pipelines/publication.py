"""How a version becomes CURRENT, atomically and durably, wherever it comes from.

Order, so that power may fail at any point: every file of the version is synced before the rename that makes it a
version, the folder after; CURRENT is written aside, synced, renamed, and its folder synced. A reader sees the old or
the new version; once this returns, the new one survives. ``.publishing`` names the version from before its rename until
after the flip, so that the next run can tell a version that was never acknowledged from one that was rolled back.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.durable import sync, sync_way_to, write_line
from codequarry.pipelines.hard_links import link_unchanged
from codequarry.pipelines.retention import Pruned, prune, remove_version, settle
from codequarry.pipelines.workspace import exclusive
from codequarry.schemas.errors import CodequarryError, PublishError
from codequarry.schemas.integrity import file_sha256, verify
from codequarry.schemas.layout import BundlePaths, BundleRoot, Current
from codequarry.schemas.manifest import Manifest
from codequarry.schemas.settings import Settings


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
    """What retention did; None when nothing was published or it failed, which never undoes a publish."""


@contextmanager
def publishing(root: BundleRoot) -> Iterator[None]:
    """Be the one who changes CURRENT and the versions. Raises BusyError: another process does."""
    with exclusive(root.lock, "publishing"):
        yield


def publish_staged(
    settings: Settings, staged: BundlePaths, manifest: Manifest, *, becomes_current: bool = True
) -> Published:
    """Publish a version that was verified, in the order the module describes, then prune.

    The caller holds the publish lock and the staging folder.

    becomes_current: False leaves CURRENT, which has to name a version, and prunes nothing. The mark goes when the
    version is durable: from then on it is one like those that were rolled back.

    Raises PublishError: there is such a version, or the disk refuses; CURRENT is as it was, the staging folder gone.
    """
    root = BundleRoot(settings.bundle.root)
    path, linked_bytes = _publish(root, staged, manifest, becomes_current=becomes_current)
    return Published(path, manifest, False, linked_bytes, _prune(root, settings) if becomes_current else None)


def make_current(root: BundleRoot, version: str) -> None:
    """Let CURRENT name a version that is there and whole; the caller holds the publish lock.

    Raises PublishError: the disk refuses; CURRENT is as it was, or the error says that it may not be.
    """
    previous = named_by(root)
    try:
        write_line(root.current, Current(version, file_sha256(root.version(version).manifest)))
    except OSError as error:
        unchanged = _taken_back(root, version, previous)
        raise PublishError(
            f"making {version} current failed: {error}",
            suggestion="fix the disk; " + ("CURRENT is unchanged" if unchanged else "see `codequarry versions`"),
        ) from error


def acknowledge_current(root: BundleRoot) -> None:
    """Finish what a publish that was killed behind its flip left undone, for a run that would publish the same again.

    Its flip may not be on the disk yet, and must be before anybody is told that the version is current.

    Raises BusyError: another process is publishing. PublishError: the disk refuses.
    """
    with publishing(root):
        settle_root(root)


def settle_root(root: BundleRoot) -> None:
    """Remove what killed publishes left, and make a flip durable that one of them died behind.

    The caller holds the publish lock. Raises PublishError: the disk refuses.
    """
    try:
        settle(root)
    except OSError as error:
        raise PublishError(
            f"cleaning up under {root.path} failed: {error}",
            suggestion="free disk space or fix the disk, then index again; CURRENT is unchanged",
        ) from error


def _publish(root: BundleRoot, staged: BundlePaths, manifest: Manifest, *, becomes_current: bool) -> tuple[Path, int]:
    target = root.version(manifest.version)
    if target.path.exists():
        raise PublishError(f"version {manifest.version} exists already", suggestion="index again; CURRENT is unchanged")
    previous = named_by(root)
    try:
        with suppress(CodequarryError):
            settle(root)
        linked = link_unchanged(root, staged, manifest)
        verify(staged, manifest, deep=False)
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
        raise PublishError(
            f"publishing {manifest.version} failed: {error}",
            suggestion="free disk space or fix the disk, then run again; "
            + ("CURRENT is unchanged" if unchanged else "CURRENT names the new version, and may not survive a crash"),
        ) from error
    return target.path, sum(entry.size_bytes for entry in manifest.files if entry.path in linked)


def _sync_version(staged: BundlePaths, manifest: Manifest, linked: frozenset[str]) -> None:
    """Sync every file and folder; a link leads to a file that was synced when it was published first."""
    for entry in manifest.files:
        if entry.path not in linked:
            sync(staged.path / entry.path)
    sync(staged.manifest)
    for folder in sorted({(staged.path / entry.path).parent for entry in manifest.files} | {staged.path}):
        sync(folder)


def _prune(root: BundleRoot, settings: Settings) -> Pruned | None:
    try:
        return prune(root, settings.bundle)
    except (CodequarryError, OSError):
        return None


def named_by(root: BundleRoot) -> Current | None:
    """What CURRENT holds; None when there is none, or nothing that can be read."""
    try:
        return root.read_current()
    except CodequarryError:
        return None


def _taken_back(root: BundleRoot, version: str, previous: Current | None) -> bool:
    """Whether CURRENT is what it was, after a failure that may have come behind its rename."""
    named = named_by(root)
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
