"""An archive becomes a published version, by the same gate and the same order as one that was built here."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from codequarry.pipelines.archive_unpack import opened_archive, unpack
from codequarry.pipelines.contents import check_contents
from codequarry.pipelines.disk_space import require_space_for_files
from codequarry.pipelines.publication import make_current, named_by, publish_staged, publishing
from codequarry.pipelines.retention import Pruned, settle, superfluous
from codequarry.pipelines.staging_folder import new_staging_folder
from codequarry.pipelines.workspace import Progress, hide_home, silent
from codequarry.schemas.compatibility import differences
from codequarry.schemas.errors import (
    CodequarryError,
    IntegrityError,
    InvalidArgumentError,
    NoBundleError,
    PublishError,
)
from codequarry.schemas.integrity import read_manifest_bytes, verify
from codequarry.schemas.layout import IMPORT_PREFIX, BundlePaths, BundleRoot, Current
from codequarry.schemas.manifest import Manifest
from codequarry.schemas.settings import Settings

Done = Literal["published", "added", "made current", "unchanged"]
CheckContents = Callable[[BundlePaths, Manifest, Settings], object]


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did."""

    path: Path
    """Folder of the version."""
    manifest: Manifest
    done: Done
    """published: unpacked, and current; added: unpacked beside the current one; made current: it was there already;
    unchanged: it was there, and nothing had to be done."""
    unlike: tuple[str, ...] = ()
    """What this program does otherwise than the one that built the version, so that its contents were not checked."""
    linked_bytes: int = 0
    """Bytes the version shares with the one that was current."""
    pruned: Pruned | None = None
    """What retention did; None when it was not asked or failed."""
    stays: bool = True
    """Whether retention keeps the version once another one is published."""


def import_version(
    file: Path,
    settings: Settings,
    progress: Progress = silent,
    *,
    keep_current: bool = False,
    check: CheckContents = check_contents,
) -> Imported:
    """Unpack an archive beside the published versions, verify it, and publish it.

    keep_current: add the version only; retention is not asked. check: what the files have to hold, where this program
    would write the same; raises.

    Raises IntegrityError, FormatError, UnavailableError: the file is no archive, or a damaged one. PublishError: a
    version of that name is there with other contents or damaged, the contents are not fit, or the disk refuses or has
    no room. InvalidArgumentError: there is no current version to keep. BusyError: another process is publishing. After
    any of them CURRENT and the versions are as they were, and nothing that was unpacked is left.
    """
    with opened_archive(file) as (stream, raw, manifest):
        wanted = _Wanted(raw, manifest, settings, keep_current)
        try:
            with publishing(wanted.root):
                hide_home(settings)
                found = _found(wanted)
            return found or _unpacked(stream, wanted, progress, check)
        except OSError as error:
            raise PublishError(
                f"importing {manifest.version} failed: {error}",
                suggestion="free disk space or fix the disk, then import again; CURRENT is unchanged",
            ) from error


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The version to be had, and how."""

    raw: bytes
    """Its manifest as it is in the archive."""
    manifest: Manifest
    settings: Settings
    keep_current: bool

    @property
    def root(self) -> BundleRoot:
        return BundleRoot(self.settings.bundle.root)

    @property
    def paths(self) -> BundlePaths:
        return self.root.version(self.manifest.version)


def _unpacked(stream: BinaryIO, wanted: _Wanted, progress: Progress, check: CheckContents) -> Imported:
    require_space_for_files(wanted.root, wanted.manifest.size_bytes + len(wanted.raw))
    with new_staging_folder(wanted.root, IMPORT_PREFIX) as folder:
        try:
            unpack(stream, wanted.raw, wanted.manifest, folder, progress)
            return _published(BundlePaths(folder), wanted, progress, check)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _published(staged: BundlePaths, wanted: _Wanted, progress: Progress, check: CheckContents) -> Imported:
    unlike = tuple(differences(wanted.manifest))
    if not unlike:
        progress("verifying", 0, 1)
        check(staged, wanted.manifest, wanted.settings)
        progress("verifying", 1, 1)
    with publishing(wanted.root):
        if found := _found(wanted):  # another import was faster
            return found
        published = publish_staged(wanted.settings, staged, wanted.manifest, becomes_current=not wanted.keep_current)
    return Imported(
        published.path, wanted.manifest, "added" if wanted.keep_current else "published", unlike,
        published.linked_bytes, published.pruned, _stays(wanted),
    )  # fmt: skip


def _found(wanted: _Wanted) -> Imported | None:
    """What there is to report when the version is there already; None when it has to be unpacked.

    The caller holds the publish lock.
    """
    with suppress(CodequarryError):
        settle(wanted.root)  # what a killed import left, this very version perhaps
    if wanted.keep_current:
        _require_current(wanted.root)
    if not os.path.lexists(wanted.paths.path):
        return None
    _require_same(wanted.paths, wanted.raw)
    line = Current(wanted.manifest.version, hashlib.sha256(wanted.raw).hexdigest())
    done: Done = "unchanged"
    if not wanted.keep_current and named_by(wanted.root) != line:
        make_current(wanted.root, wanted.manifest.version)
        done = "made current"
    return Imported(wanted.paths.path, wanted.manifest, done, stays=_stays(wanted))


def _require_current(root: BundleRoot) -> None:
    try:
        root.read_current()
    except NoBundleError:
        raise InvalidArgumentError(
            f"no version is current under {root.path}, so that none can be kept",
            suggestion="import without --keep-current",
        ) from None


def _require_same(paths: BundlePaths, raw: bytes) -> None:
    """Raises PublishError: the version that is there is another one, or damaged."""
    name = paths.path.name
    try:
        if paths.path.is_symlink():
            raise IntegrityError("it is a symbolic link, expected a folder")
        found, manifest = read_manifest_bytes(paths)
        if found == raw:
            verify(paths, manifest, deep=True)
    except CodequarryError as error:
        raise PublishError(
            f"version {name} is there already, and damaged: {error.message}",
            suggestion=f"`codequarry rollback` if it is current, move {paths.path} away, and import again",
        ) from error
    if found != raw:
        raise PublishError(
            f"version {name} is there already with other contents",
            suggestion="nothing was changed; index one of the two again, and export it under its new name",
        )


def _stays(wanted: _Wanted) -> bool:
    """What retention will say; nothing fails by not knowing."""
    with suppress(OSError):
        return wanted.manifest.version not in superfluous(wanted.root, "", wanted.settings.bundle)
    return True
