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
from codequarry.pipelines.publish.archive.format import ArchivedVersion
from codequarry.pipelines.publish.archive.read import opened_archive, skip_base, unpack, unpack_base
from codequarry.pipelines.publish.archive.signatures import checked_signature
from codequarry.pipelines.publish.publish import make_current, named_by, publish_staged, publishing
from codequarry.pipelines.publish.retention import Pruned, remove_version, settle, superfluous
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
from codequarry.serving.files.lease import hold_version

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
    base: str | None = None
    """Name of the base that was unpacked with a delta version."""


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
            disk refuses or has no room; or the base of a delta version is another one, or neither there nor in the
            archive.
        InvalidArgumentError: There is no current version to keep.
        BusyError: Another process is publishing.
    """
    with opened_archive(file) as opened:
        own = opened.version
        provenance = _checked_provenance(file, own.raw, settings.archive.trusted_keys, keys)
        wanted = _Wanted(own, opened.base, settings, keep_current, provenance, check)
        name = own.manifest.version
        try:
            make_bundle_root(settings.bundle)
            with publishing(wanted.root):
                hide_home(settings)
                found = _use_version_that_is_there(wanted)
            return found or _unpack_and_publish(opened.stream, wanted, progress)
        except OSError as error:
            raise_if_exhausted(error, f"importing {name} failed")
            raise PublishError(
                f"importing {name} failed: {error}",
                suggestion="free disk space or fix the disk, then import again; CURRENT is unchanged",
            ) from error


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The version to import, and the options of the import."""

    own: ArchivedVersion
    """The version, as the archive holds it."""
    base: ArchivedVersion | None
    """Base of a delta version, where the archive holds it."""
    settings: Settings
    keep_current: bool
    provenance: Provenance
    check: CheckContents

    @property
    def raw(self) -> bytes:
        return self.own.raw

    @property
    def manifest(self) -> Manifest:
        return self.own.manifest

    @property
    def root(self) -> BundleRoot:
        return BundleRoot(self.settings.bundle.root)

    @property
    def paths(self) -> BundlePaths:
        return self.root.version(self.manifest.version)


def _unpack_and_publish(stream: BinaryIO, wanted: _Wanted, progress: Progress) -> Imported:
    with _held_base(wanted) as there:
        base = None if there else wanted.base
        wanted_bytes = wanted.own.size_bytes + (base.size_bytes if base is not None else 0)
        require_space_for_files(wanted.root, wanted_bytes)
        with new_staging_folder(wanted.root, IMPORT_PREFIX) as folder:
            try:
                staged = BundlePaths(folder)
                if base is not None:  # both lie in a root of their own, where the checks of a delta find its base
                    aside = BundleRoot(folder)
                    staged, below = (aside.version(each.manifest.version) for each in (wanted.own, base))
                    for paths in (staged, below):
                        paths.path.mkdir(parents=True)
                    unpack_base(stream, base, below.path, progress)
                    _check(below, base, wanted, progress)
                elif wanted.base is not None:
                    skip_base(stream, wanted.base)
                unpack(stream, wanted.raw, wanted.manifest, staged.path, progress)
                return _publish_unpacked(staged, wanted, progress, base)
            finally:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _held_base(wanted: _Wanted) -> Iterator[bool]:
    """Yield whether the base of a delta version is there, whole, and held for the block.

    Args:
        wanted: The version to import.

    Yields:
        False for a complete version, and when the archive's own base has to be unpacked.

    Raises:
        PublishError: The base that is there is another one or damaged; or it is neither there nor in the archive.
    """
    stack = wanted.manifest.stack
    paths = None if stack is None else wanted.root.version(stack.base)
    if paths is not None and stack is not None and os.path.lexists(paths.path):
        try:
            hold = hold_version(paths)
        except IntegrityError as error:
            raise _damaged(stack.base, error, paths.path) from error
        with hold:
            _require_same(paths, stack.base_sha256)
            yield True
        return
    if stack is not None and wanted.base is None:
        raise PublishError(
            f"the archive holds a delta version over {stack.base} without that base, and no such version is there",
            suggestion=f"import an archive of {stack.base} first, or export again without --without-base; "
            "CURRENT is unchanged",
        )
    yield False


def _check(staged: BundlePaths, version: ArchivedVersion, wanted: _Wanted, progress: Progress) -> None:
    progress("verifying", 0, 1)
    wanted.check(staged, version.manifest, wanted.settings.checks)
    progress("verifying", 1, 1)


def _publish_unpacked(
    staged: BundlePaths, wanted: _Wanted, progress: Progress, base: ArchivedVersion | None
) -> Imported:
    _check(staged, wanted.own, wanted, progress)
    with publishing(wanted.root):
        if found := _use_version_that_is_there(wanted):  # another import was faster
            return found
        with _published_base(staged, wanted, base), _record_provenance(wanted, wanted.manifest.version):
            published = publish_staged(
                wanted.settings.bundle, staged, wanted.manifest, becomes_current=not wanted.keep_current
            )
    return Imported(
        published.path, wanted.manifest, "added" if wanted.keep_current else "published", wanted.provenance,
        tuple(differences(wanted.manifest)), published.linked_bytes, published.pruned, _survives_retention(wanted),
        base=None if base is None else base.manifest.version,
    )  # fmt: skip


@contextmanager
def _published_base(staged: BundlePaths, wanted: _Wanted, base: ArchivedVersion | None) -> Iterator[None]:
    """Publish the unpacked base beside the versions for the block; when the block fails, it is removed again.

    Killed in between, it stays as a complete version that is not current, and the next import finds it.
    """
    if base is None:
        yield
        return
    name = base.manifest.version
    if os.path.lexists(wanted.root.version(name).path):  # another import was faster
        _require_same(wanted.root.version(name), hashlib.sha256(base.raw).hexdigest())
        yield
        return
    with _record_provenance(wanted, name):
        below = staged.path.with_name(name)
        publish_staged(wanted.settings.bundle, BundlePaths(below), base.manifest, becomes_current=False)
    try:
        yield
    except BaseException:
        if not wanted.paths.path.exists():
            with suppress(OSError, CodequarryError):
                remove_version(wanted.root, name)
        raise


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
def _record_provenance(wanted: _Wanted, version: str) -> Iterator[None]:
    """Record the origin of a version before the version exists, so that none is without; undo it after an error."""
    target = wanted.root.provenance(version)
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
    digest = hashlib.sha256(wanted.raw).hexdigest()
    _require_same(wanted.paths, digest)
    if wanted.manifest.stack is not None:
        _require_same(wanted.root.version(wanted.manifest.stack.base), wanted.manifest.stack.base_sha256)
    line = Current(wanted.manifest.version, digest)
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


def _require_same(paths: BundlePaths, manifest_sha256: str) -> None:
    """Raise PublishError when the version that is there is another one, or damaged."""
    name = paths.path.name
    try:
        if paths.path.is_symlink():
            raise IntegrityError("it is a symbolic link, expected a folder")
        found, manifest = read_manifest_bytes(paths)
        same = hashlib.sha256(found).hexdigest() == manifest_sha256
        if same:
            verify(paths, manifest, deep=True)
    except ResourcesError:
        raise
    except CodequarryError as error:
        raise _damaged(name, error, paths.path) from error
    if not same:
        raise PublishError(
            f"version {name} is there already with other contents",
            suggestion="nothing was changed; index one of the two again, and export it under its new name",
        )


def _damaged(name: str, error: CodequarryError, path: Path) -> PublishError:
    return PublishError(
        f"version {name} is there already, and damaged: {error.message}",
        suggestion=f"`codequarry rollback` if it is current, move {path} away, and import again",
    )


def _survives_retention(wanted: _Wanted) -> bool:
    """Return whether retention will keep the version; True when that cannot be told."""
    with suppress(OSError, ResourcesError):
        return wanted.manifest.version not in superfluous(wanted.root, "", wanted.settings.bundle)
    return True
