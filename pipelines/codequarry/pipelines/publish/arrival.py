"""Arrival of a version from elsewhere as a published one, with the same gate and order as for a version built here."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from codequarry.pipelines.bundle.disk_space import require_space_for_files
from codequarry.pipelines.bundle.folder import new_staging_folder
from codequarry.pipelines.gates.required_content import check_imported
from codequarry.pipelines.publish.leaving import RawManifest
from codequarry.pipelines.publish.publish import make_current, named_by, publish_staged, publishing
from codequarry.pipelines.publish.retention import Pruned, remove_version, settle, superfluous
from codequarry.pipelines.store.access import make_bundle_root
from codequarry.pipelines.store.durable import new_file, write_all
from codequarry.pipelines.store.workspace import Progress, hide_home
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


class ReceivedFiles(Protocol):
    """The files of a version that arrives. A base comes before the delta version over it."""

    def write_base(self, base: RawManifest, folder: Path, progress: Progress) -> None:
        """Write the files of the base into an empty folder, its manifest last; arguments are those of `write`."""
        ...

    def skip_base(self, base: RawManifest) -> None:
        """Pass over the base, which is there already."""
        ...

    def write(self, version: RawManifest, folder: Path, progress: Progress) -> None:
        """Write the files of the version into an empty folder, its manifest last; nothing has to be synced.

        Args:
            version: The version.
            folder: The folder.
            progress: Told of the megabytes written.

        Raises:
            IntegrityError: The files are not those of the manifest, byte for byte.
            OSError: The disk refuses.
        """
        ...


@dataclass(frozen=True, slots=True)
class Imported:
    """Result of an import or a pull."""

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


def publish_arriving(
    own: RawManifest,
    base: RawManifest | None,
    contents: ReceivedFiles,
    settings: Settings,
    provenance: Provenance,
    progress: Progress,
    *,
    keep_current: bool = False,
    check: CheckContents = check_imported,
) -> Imported:
    """Write a version beside the published ones, verify it, and publish it.

    After any error CURRENT and the versions are as they were, and nothing that was written is left.

    Args:
        own: The version.
        base: Base of a delta version, where it comes too.
        contents: Their files.
        settings: Settings of the bundle root and the gates.
        provenance: Says where they come from.
        progress: Told of the megabytes written.
        keep_current: Add the version without making it current; retention is not asked.
        check: Checks the contents of the files; raises.

    Returns:
        The version and what was done.

    Raises:
        IntegrityError: The files are not those of the manifest.
        PublishError: A version of that name is there with other contents or damaged, the contents are not fit, or the
            disk refuses or has no room; or the base of a delta version is another one, or neither there nor came it.
        InvalidArgumentError: There is no current version to keep.
        BusyError: Another process is publishing.
    """
    wanted = _Wanted(own, base, contents, settings, keep_current, provenance, check)
    name = own.manifest.version
    try:
        make_bundle_root(settings.bundle)
        with publishing(wanted.root):
            hide_home(settings)
            found = _use_version_that_is_there(wanted)
        return found or _receive_and_publish(wanted, progress)
    except OSError as error:
        raise_if_exhausted(error, f"importing {name} failed")
        raise PublishError(
            f"importing {name} failed: {error}",
            suggestion="free disk space or fix the disk, then run again; CURRENT is unchanged",
        ) from error


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The version that arrives, and what is asked of it."""

    own: RawManifest
    base: RawManifest | None
    """Base of a delta version, where it comes too."""
    contents: ReceivedFiles
    settings: Settings
    keep_current: bool
    provenance: Provenance
    check: CheckContents

    @property
    def manifest(self) -> Manifest:
        return self.own.manifest

    @property
    def root(self) -> BundleRoot:
        return BundleRoot(self.settings.bundle.root)

    @property
    def paths(self) -> BundlePaths:
        return self.root.version(self.manifest.version)


def _receive_and_publish(wanted: _Wanted, progress: Progress) -> Imported:
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
                    wanted.contents.write_base(base, below.path, progress)
                    _check(below, base, wanted, progress)
                elif wanted.base is not None:
                    wanted.contents.skip_base(wanted.base)
                wanted.contents.write(wanted.own, staged.path, progress)
                return _publish_received(staged, wanted, progress, base)
            finally:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _held_base(wanted: _Wanted) -> Iterator[bool]:
    """Yield whether the base of a delta version is there, whole, and held for the block.

    Args:
        wanted: The version to import.

    Yields:
        False for a complete version, and when a base that came too has to be written.

    Raises:
        PublishError: The base that is there is another one or damaged; or it is neither there nor did it come.
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
            f"{wanted.manifest.version} is a delta version over {stack.base}, which did not come with it, and no such "
            "version is there",
            suggestion=f"import an archive of {stack.base} first, or export again without --without-base; "
            "CURRENT is unchanged",
        )
    yield False


def _check(staged: BundlePaths, version: RawManifest, wanted: _Wanted, progress: Progress) -> None:
    progress("verifying", 0, 1)
    wanted.check(staged, version.manifest, wanted.settings.checks)
    progress("verifying", 1, 1)


def _publish_received(staged: BundlePaths, wanted: _Wanted, progress: Progress, base: RawManifest | None) -> Imported:
    _check(staged, wanted.own, wanted, progress)
    with publishing(wanted.root):
        if found := _use_version_that_is_there(wanted):  # another process was faster
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
def _published_base(staged: BundlePaths, wanted: _Wanted, base: RawManifest | None) -> Iterator[None]:
    """Publish the base that came beside the versions for the block; when the block fails, it is removed again.

    Killed in between, it stays as a complete version that is not current, and the next run finds it.
    """
    if base is None:
        yield
        return
    name = base.manifest.version
    if os.path.lexists(wanted.root.version(name).path):  # another process was faster
        _require_same(wanted.root.version(name), base.sha256)
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
    """Return the result when the version is there already; None when it has to be written.

    The caller holds the publish lock.
    """
    with suppress(CodequarryError):
        settle(wanted.root)  # what a killed run left, this very version perhaps
    if wanted.keep_current:
        _require_current(wanted.root)
    if not os.path.lexists(wanted.paths.path):
        return None
    digest = wanted.own.sha256
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
