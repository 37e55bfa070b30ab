"""Import of an archive as a published version, with the same gate and the same order as for a version built here."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Literal

from codequarry.pipelines.bundle.disk_space import require_space_for_files
from codequarry.pipelines.bundle.folder import new_staging_folder
from codequarry.pipelines.gates.required_content import check_imported
from codequarry.pipelines.publish.archive.read import opened_archive, unpack
from codequarry.pipelines.publish.archive.signatures import checked_signature
from codequarry.pipelines.publish.publish import make_current, named_by, publish_staged, publishing
from codequarry.pipelines.publish.retention import Pruned, settle, superfluous
from codequarry.pipelines.store.access import make_bundle_root
from codequarry.pipelines.store.durable import new_file, write_all
from codequarry.pipelines.store.workspace import Progress, hide_home, silent
from codequarry.schemas.bundle.layout import IMPORT_PREFIX, BundlePaths, BundleRoot, Current
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.bundle.provenance import Provenance
from codequarry.schemas.errors import (
    CodequarryError,
    IntegrityError,
    InvalidArgumentError,
    NoBundleError,
    PublishError,
    ResourcesError,
)
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.schemas.settings.load import ChecksSettings, Settings
from codequarry.serving.files.compatibility import differences
from codequarry.serving.files.integrity import read_manifest_bytes, verify

Done = Literal["published", "added", "made current", "unchanged"]
CheckContents = Callable[[BundlePaths, Manifest, ChecksSettings], object]


@dataclass(frozen=True, slots=True)
class Imported:
    """Result of an import."""

    path: Path
    """Folder of the version."""
    manifest: Manifest
    done: Done
    """published: unpacked, and current; added: unpacked beside the current one; made current: it was there already;
    unchanged: it was there, and nothing had to be done."""
    provenance: Provenance | None = None
    """Origin of the version; None when it was there already."""
    unlike: tuple[str, ...] = ()
    """Differences between this program and the one that built the version."""
    linked_bytes: int = 0
    """Bytes the version shares with the one that was current."""
    pruned: Pruned | None = None
    """Result of retention; None when it was not asked or failed."""
    stays: bool = True
    """True when retention keeps the version once another one is published."""


def import_version(
    file: Path,
    settings: Settings,
    progress: Progress = silent,
    *,
    keep_current: bool = False,
    keys: Sequence[str] = (),
    check: CheckContents = check_imported,
) -> Imported:
    """Unpack an archive beside the published versions, verify it, and publish it.

    After any error CURRENT and the versions are as they were, and nothing that was unpacked is left.

    Args:
        file: The archive.
        settings: Settings of the bundle root, the gates and the trusted keys.
        progress: Told of the megabytes unpacked.
        keep_current: Add the version without making it current; retention is not asked.
        keys: Public keys, one of which has to have signed the archive, besides those of the settings.
        check: Checks the contents of the files; raises.

    Returns:
        The version and what was done.

    Raises:
        IntegrityError: The file is no archive, is damaged, or lacks a required signature.
        FormatError: The archive's format is not one this program reads.
        UnavailableError: The file cannot be read.
        PublishError: A version of that name is there with other contents or damaged, the contents are not fit, or the
            disk refuses or has no room.
        InvalidArgumentError: There is no current version to keep.
        BusyError: Another process is publishing.
    """
    with opened_archive(file) as (stream, raw, manifest):
        if manifest.stack is not None:
            raise PublishError(
                f"the archive holds a delta version over {manifest.stack.base}, which is of no use without it",
                suggestion="export a complete version; CURRENT is unchanged",
            )
        wanted = _Wanted(
            raw, manifest, settings, keep_current, _checked_provenance(file, raw, settings.archive.trusted_keys, keys)
        )
        try:
            make_bundle_root(settings.bundle)
            with publishing(wanted.root):
                hide_home(settings)
                found = _use_version_that_is_there(wanted)
            return found or _unpack_and_publish(stream, wanted, progress, check)
        except OSError as error:
            raise_if_exhausted(error, f"importing {manifest.version} failed")
            raise PublishError(
                f"importing {manifest.version} failed: {error}",
                suggestion="free disk space or fix the disk, then import again; CURRENT is unchanged",
            ) from error


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The version to import, and the options of the import."""

    raw: bytes
    """Its manifest as it is in the archive."""
    manifest: Manifest
    settings: Settings
    keep_current: bool
    provenance: Provenance

    @property
    def root(self) -> BundleRoot:
        return BundleRoot(self.settings.bundle.root)

    @property
    def paths(self) -> BundlePaths:
        return self.root.version(self.manifest.version)


def _unpack_and_publish(stream: BinaryIO, wanted: _Wanted, progress: Progress, check: CheckContents) -> Imported:
    require_space_for_files(wanted.root, wanted.manifest.size_bytes + len(wanted.raw))
    with new_staging_folder(wanted.root, IMPORT_PREFIX) as folder:
        try:
            unpack(stream, wanted.raw, wanted.manifest, folder, progress)
            return _publish_unpacked(BundlePaths(folder), wanted, progress, check)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _publish_unpacked(staged: BundlePaths, wanted: _Wanted, progress: Progress, check: CheckContents) -> Imported:
    progress("verifying", 0, 1)
    check(staged, wanted.manifest, wanted.settings.checks)
    progress("verifying", 1, 1)
    with publishing(wanted.root):
        if found := _use_version_that_is_there(wanted):  # another import was faster
            return found
        with _record_provenance(wanted):
            published = publish_staged(
                wanted.settings.bundle, staged, wanted.manifest, becomes_current=not wanted.keep_current
            )
    return Imported(
        published.path, wanted.manifest, "added" if wanted.keep_current else "published", wanted.provenance,
        tuple(differences(wanted.manifest)), published.linked_bytes, published.pruned, _survives_retention(wanted),
    )  # fmt: skip


def _checked_provenance(file: Path, raw: bytes, trusted: Sequence[str], keys: Sequence[str]) -> Provenance:
    """Check the required signatures, and return the origin of the version.

    Args:
        file: The archive.
        raw: Bytes of its manifest.
        trusted: Trusted keys of the settings.
        keys: Public keys of the caller.

    Returns:
        The origin.

    Raises:
        IntegrityError: The settings or the caller ask for a signature, and it is missing or another's.
    """
    signed = [checked_signature(file, raw, each) for each in (trusted, keys) if each]
    now = datetime.now(UTC).replace(microsecond=0, tzinfo=None)
    return Provenance(
        file=str(file.absolute()),
        imported=f"{now.isoformat()}Z",
        signed_by=signed[0].key if signed else "",
        comment=signed[0].comment if signed else "",
    )


@contextmanager
def _record_provenance(wanted: _Wanted) -> Iterator[None]:
    """Record the origin of the version before the version exists, so that none is without; undo it after an error."""
    target = wanted.root.provenance(wanted.manifest.version)
    target.parent.mkdir(exist_ok=True)
    with new_file(target) as descriptor:
        write_all(descriptor, wanted.provenance.model_dump_json(indent=1).encode() + b"\n")
    try:
        yield
    except BaseException:
        with suppress(OSError):
            target.unlink()
        raise


def _use_version_that_is_there(wanted: _Wanted) -> Imported | None:
    """Return the result when the version is there already; None when it has to be unpacked.

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
    return Imported(wanted.paths.path, wanted.manifest, done, stays=_survives_retention(wanted))


def _require_current(root: BundleRoot) -> None:
    try:
        root.read_current()
    except NoBundleError:
        raise InvalidArgumentError(
            f"no version is current under {root.path}, so that none can be kept",
            suggestion="import without --keep-current",
        ) from None


def _require_same(paths: BundlePaths, raw: bytes) -> None:
    """Raise PublishError when the version that is there is another one, or damaged."""
    name = paths.path.name
    try:
        if paths.path.is_symlink():
            raise IntegrityError("it is a symbolic link, expected a folder")
        found, manifest = read_manifest_bytes(paths)
        if found == raw:
            verify(paths, manifest, deep=True)
    except ResourcesError:
        raise
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


def _survives_retention(wanted: _Wanted) -> bool:
    """Return whether retention will keep the version; True when that cannot be told."""
    with suppress(OSError, ResourcesError):
        return wanted.manifest.version not in superfluous(wanted.root, "", wanted.settings.bundle)
    return True
