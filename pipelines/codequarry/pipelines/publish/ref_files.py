"""Publishing the versions of further refs: as durable as CURRENT, which stays as it is.

``refs/.left-<version>`` marks the version of a ref before the ref names it, and again before the ref names another one.
A version with this mark that no ref names belongs to nobody: the next prune removes it, and no rollback goes to it. So
a run that is killed leaves no version of a branch among those of CURRENT.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from codequarry.pipelines.bundle.folder import using
from codequarry.pipelines.gates.verify import Verified
from codequarry.pipelines.publish.publish import Published, publish_staged, publishing, read_verified
from codequarry.pipelines.publish.retention import bases_of, remove_version
from codequarry.pipelines.store.durable import sync, write_line
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot, Current
from codequarry.schemas.bundle.refs import RefName, left_file, read_ref, read_refs, ref_file
from codequarry.schemas.errors import CodequarryError, IntegrityError, PublishError, ResourcesError
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.schemas.settings.bundle import BundleSettings
from codequarry.serving.files.integrity import file_sha256


def publish_ref(verified: Verified, bundle: BundleSettings, name: RefName) -> Published:
    """Publish a version that passed verification as that of a ref.

    Args:
        verified: The version.
        bundle: Settings of the bundle.
        name: The ref.

    Returns:
        The published version. The one that the ref named before is gone, unless something else needs it.

    Raises:
        PublishError: The version changed since it was verified, or the disk refuses.
        BusyError: Another process is publishing.
    """
    root, staged = BundleRoot(bundle.root), BundlePaths(verified.path)
    with publishing(root), using(staged.path):
        manifest = read_verified(verified, "the ref is unchanged")
        line = Current(manifest.version, verified.manifest_sha256)
        try:
            _make_folder(root.refs)
            write_line(left_file(root, line.version), line)
        except OSError as error:
            shutil.rmtree(staged.path, ignore_errors=True)
            raise _naming_error(error, name, unchanged=True) from error
        published = publish_staged(bundle, staged, manifest, becomes_current=False)
        _name(root, name, line)
        return published


def name_ref(root: BundleRoot, name: RefName, version: str) -> None:
    """Let a ref name a version that is there; raises as `publish_ref`."""
    with publishing(root):
        _name(root, name, Current(version, file_sha256(root.version(version).manifest)))


def drop_ref(root: BundleRoot, name: RefName) -> None:
    """Remove a ref, and its version unless something else needs it.

    Args:
        root: Bundle root.
        name: The ref.

    Raises:
        PublishError: The disk refuses.
        BusyError: Another process is publishing.
    """
    with publishing(root):
        leaving = _version_of_ref_alone(root, name)
        try:
            if leaving is not None:
                write_line(left_file(root, leaving.version), leaving)
            ref_file(root, name).unlink(missing_ok=True)
            if root.refs.is_dir():
                sync(root.refs)
        except OSError as error:
            raise PublishError(f"the ref {name} cannot be removed: {error}", suggestion="fix the disk") from error
        _remove(root, leaving)


def _name(root: BundleRoot, name: RefName, line: Current) -> None:
    """Let a ref name a version that is there, and remove the one before unless something else needs it."""
    file, before = ref_file(root, name), _named_before(root, name)
    if before == line:
        return
    leaving = _version_of_ref_alone(root, name)
    try:
        _make_folder(root.refs)
        if leaving is not None:
            write_line(left_file(root, leaving.version), leaving)
        write_line(file, line)
    except OSError as error:
        unchanged = _taken_back(root, name, line, before)
        if unchanged and left_file(root, line.version).exists():
            _remove(root, line)
        raise _naming_error(error, name, unchanged=unchanged) from error
    with suppress(OSError):
        left_file(root, line.version).unlink(missing_ok=True)
    _remove(root, leaving)


def _naming_error(error: OSError, name: RefName, *, unchanged: bool) -> PublishError:
    """Return the error for a disk that refuses; raises ResourcesError when the machine has nothing left."""
    if unchanged:
        raise_if_exhausted(error, f"naming the version of {name} failed")
    state = "the ref is unchanged" if unchanged else "the ref names the new version, and may not survive a crash"
    return PublishError(
        f"naming the version of {name} failed: {error}",
        suggestion=f"free disk space or fix the disk, then index again; {state}",
    )


def _taken_back(root: BundleRoot, name: RefName, line: Current, before: Current | None) -> bool:
    """Restore the file of a ref after a failure that may have come after its rename; return whether it is as it was."""
    try:
        if _named_before(root, name) != line:
            return True
        if before is None:
            ref_file(root, name).unlink()
            sync(root.refs)
        else:
            write_line(ref_file(root, name), before)
    except (OSError, ResourcesError):
        return False
    return True


def _make_folder(folder: Path) -> None:
    if folder.is_symlink():
        raise IntegrityError(f"{folder} is a symbolic link, expected a folder", suggestion="remove it; index again")
    if not folder.is_dir():
        folder.mkdir()
        os.chmod(folder, folder.parent.stat().st_mode & 0o755)
        sync(folder.parent)


def _named_before(root: BundleRoot, name: RefName) -> Current | None:
    try:
        return read_ref(root, name)
    except IntegrityError:  # it is written anew
        return None


def _version_of_ref_alone(root: BundleRoot, name: RefName) -> Current | None:
    """Return the version that a ref names, where nothing else needs it."""
    before = _named_before(root, name)
    if before is None:
        return None
    try:
        others = [each.version for other, each in read_refs(root).items() if other != name]
        needed = {root.read_current().version, *others, *bases_of(root, root.version_names()).values()}
    except CodequarryError:  # nobody can say what is needed
        return None
    return None if before.version in needed else before


def _remove(root: BundleRoot, left: Current | None) -> None:
    """Remove a version that has its mark; one that a reader has open is left to retention."""
    if left is not None:
        with suppress(OSError, CodequarryError):
            remove_version(root, left.version)
