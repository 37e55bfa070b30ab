"""Stage 8: a verified version becomes CURRENT, atomically and durably.

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
from codequarry.pipelines.staging import read_pointer, staged_pointer
from codequarry.pipelines.staging_folder import using
from codequarry.pipelines.verification import verified_pointer
from codequarry.pipelines.workspace import exclusive
from codequarry.schemas.errors import CodequarryError, PublishError
from codequarry.schemas.integrity import current_manifest, file_sha256, read_manifest, verify
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


def publish_verified(settings: Settings, *, force: bool = False) -> Published:
    """Publish the version that passed verification; a version equal to CURRENT is dropped instead.

    force: publish also when CURRENT holds the same contents.

    Raises PublishError: nothing is verified, the version changed since, or the disk refuses. BusyError: another
    process is publishing. CURRENT is as it was after any of them.
    """
    root = BundleRoot(settings.bundle.root)
    pointer = read_pointer(verified_pointer(settings), "verified")
    staged = BundlePaths(Path(pointer["path"]))
    with publishing(root), using(staged.path):
        if not staged.manifest.is_file() or file_sha256(staged.manifest) != pointer["manifest_sha256"]:
            raise PublishError(
                "the verified version is gone or was changed since", suggestion="index again; CURRENT is unchanged"
            )
        manifest = read_manifest(staged)
        current = current_manifest(root)
        unchanged = current is not None and current.digest == manifest.digest and not force
        if unchanged:
            assert current is not None
            shutil.rmtree(staged.path)
            _settle(root)
            published = Published(root.version(current.version).path, current, True, 0, None)
        else:
            path, linked_bytes = _publish(root, staged, manifest)
            published = Published(path, manifest, False, linked_bytes, _prune(root, settings))
    for pointer in (verified_pointer(settings), staged_pointer(settings)):
        with suppress(OSError):  # it is published; what leads to a version that is staged no more harms nobody
            pointer.unlink()
    return published


def acknowledge_current(root: BundleRoot) -> None:
    """Finish what a publish that was killed behind its flip left undone, for a run that would publish the same again.

    Its flip may not be on the disk yet, and must be before anybody is told that the version is current.

    Raises BusyError: another process is publishing. PublishError: the disk refuses.
    """
    with publishing(root):
        _settle(root)


def _publish(root: BundleRoot, staged: BundlePaths, manifest: Manifest) -> tuple[Path, int]:
    target = root.version(manifest.version)
    if target.path.exists():
        raise PublishError(f"version {manifest.version} exists already", suggestion="index again; CURRENT is unchanged")
    previous = _current(root)
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
            suggestion="free disk space or fix the disk, then index again; "
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


def _settle(root: BundleRoot) -> None:
    try:
        settle(root)
    except OSError as error:
        raise PublishError(
            f"cleaning up under {root.path} failed: {error}",
            suggestion="free disk space or fix the disk, then index again; CURRENT is unchanged",
        ) from error


def _prune(root: BundleRoot, settings: Settings) -> Pruned | None:
    try:
        return prune(root, settings.bundle)
    except (CodequarryError, OSError):
        return None


def _current(root: BundleRoot) -> Current | None:
    try:
        return root.read_current()
    except CodequarryError:
        return None


def _taken_back(root: BundleRoot, version: str, previous: Current | None) -> bool:
    """Whether CURRENT is what it was, after a failure that may have come behind its rename."""
    named = _current(root)
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
