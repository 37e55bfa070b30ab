"""Stage 8: a verified version becomes CURRENT, atomically and durably.

Order, so that power may fail at any point: every file of the version is synced before the rename that makes it a
version, the folder after; CURRENT is written aside, synced, renamed, and its folder synced. A reader sees the old or
the new version; once this returns, the new one survives.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.staging import read_pointer, staged_pointer
from codequarry.pipelines.verification import verified_pointer
from codequarry.pipelines.workspace import exclusive
from codequarry.schemas.errors import CodequarryError, PublishError
from codequarry.schemas.integrity import file_sha256, list_files, read_manifest, verify
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


def publish_verified(settings: Settings, *, force: bool = False) -> Published:
    """Publish the version that passed verification; a version equal to CURRENT is dropped instead.

    force: publish also when CURRENT holds the same contents.

    Raises PublishError: nothing is verified, the version changed since, or the disk refuses. BusyError: another
    process is publishing. CURRENT is as it was after any of them.
    """
    root = BundleRoot(settings.bundle.root)
    pointer = read_pointer(verified_pointer(settings), "verified")
    staged = BundlePaths(Path(pointer["path"]))
    with exclusive(root.lock, "publishing"):
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
            published = Published(root.version(current.version).path, current, True)
        else:
            published = Published(_publish(root, staged, manifest), manifest, False)
    verified_pointer(settings).unlink()
    staged_pointer(settings).unlink(missing_ok=True)
    return published


def current_manifest(root: BundleRoot) -> Manifest | None:
    """The manifest of CURRENT; None when readers would find no version, or refuse the one they find."""
    try:
        current = root.read_current()
        paths = root.version(current.version)
        manifest = read_manifest(paths, expected_sha256=current.manifest_sha256)
        verify(paths, manifest, deep=False)
    except CodequarryError:
        return None
    return manifest


def _publish(root: BundleRoot, staged: BundlePaths, manifest: Manifest) -> Path:
    target = root.version(manifest.version)
    if target.path.exists():
        raise PublishError(f"version {manifest.version} exists already", suggestion="index again; CURRENT is unchanged")
    previous = _current(root)
    try:
        for name in list_files(staged.path):
            _sync(staged.path / name)
        for folder in sorted({(staged.path / name).parent for name in list_files(staged.path)} | {staged.path}):
            _sync(folder)
        os.rename(staged.path, target.path)
        _sync(root.versions)
        _flip(root, Current(manifest.version, file_sha256(target.manifest)))
    except OSError as error:
        # After a failed fsync the pages may be gone though later calls succeed: never retry, discard the whole folder.
        shutil.rmtree(staged.path, ignore_errors=True)
        unchanged = _taken_back(root, manifest.version, previous)
        if unchanged:
            shutil.rmtree(target.path, ignore_errors=True)
        raise PublishError(
            f"publishing {manifest.version} failed: {error}",
            suggestion="free disk space or fix the disk, then index again; "
            + ("CURRENT is unchanged" if unchanged else "CURRENT names the new version, and may not survive a crash"),
        ) from error
    return target.path


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
            _sync(root.path)
        else:
            _flip(root, previous)
    except OSError:
        return False
    return True


def _flip(root: BundleRoot, current: Current) -> None:
    temporary = root.path / ".CURRENT.new"
    with temporary.open("w", encoding="ascii") as stream:
        stream.write(current.line())
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, root.current)
    _sync(root.path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
