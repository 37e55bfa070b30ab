"""Publishing the versions of further refs: as durable as CURRENT, which stays as it is."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from codequarry.pipelines.bundle.folder import using
from codequarry.pipelines.gates.verify import Verified
from codequarry.pipelines.publish.publish import Published, publish_staged, publishing
from codequarry.pipelines.publish.retention import bases_of, remove_version
from codequarry.pipelines.store.durable import sync, write_line
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot, Current
from codequarry.schemas.bundle.refs import RefName, left_file, read_ref, read_refs, ref_file
from codequarry.schemas.errors import CodequarryError, IntegrityError, PublishError
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.schemas.settings.bundle import BundleSettings
from codequarry.serving.files.integrity import file_sha256, read_manifest


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
        if not staged.manifest.is_file() or file_sha256(staged.manifest) != verified.manifest_sha256:
            raise PublishError(
                "the verified version is gone or was changed since", suggestion="index again; the ref is unchanged"
            )
        manifest = read_manifest(staged)
        published = publish_staged(bundle, staged, manifest, becomes_current=False)
        try:
            _name(root, name, Current(manifest.version, verified.manifest_sha256))
        except BaseException:
            with suppress(OSError):
                remove_version(root, manifest.version)
            raise
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
        before = _named_before(root, name)
        try:
            ref_file(root, name).unlink(missing_ok=True)
            if root.refs.is_dir():
                sync(root.refs)
        except OSError as error:
            raise PublishError(f"the ref {name} cannot be removed: {error}", suggestion="fix the disk") from error
        _remove_unnamed(root, before)


def _name(root: BundleRoot, name: RefName, line: Current) -> None:
    file, before = ref_file(root, name), _named_before(root, name)
    if before == line:
        return
    try:
        _make_folder(root.refs)
        write_line(file, line)
    except OSError as error:
        raise_if_exhausted(error, f"naming the version of {name} failed")
        raise PublishError(
            f"naming the version of {name} failed: {error}", suggestion="fix the disk, then index again"
        ) from error
    _remove_unnamed(root, before)


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


def _remove_unnamed(root: BundleRoot, before: Current | None) -> None:
    """Remove the version that a ref named before; one that a reader has open is left to retention."""
    if before is None:
        return
    with suppress(OSError, CodequarryError):
        named = {root.read_current().version, *(each.version for each in read_refs(root).values())}
        needed = named | set(bases_of(root, root.version_names()).values())
        if before.version not in needed and not remove_version(root, before.version):
            write_line(left_file(root, before.version), before)
