"""Stage 8: the version that passed verification is published."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from codequarry.pipelines.publication import Published, publish_staged, publishing, settle_root
from codequarry.pipelines.staging import read_pointer, staged_pointer
from codequarry.pipelines.staging_folder import using
from codequarry.pipelines.verification import verified_pointer
from codequarry.schemas.errors import PublishError
from codequarry.schemas.integrity import current_manifest, file_sha256, read_manifest
from codequarry.schemas.layout import BundlePaths, BundleRoot
from codequarry.schemas.settings import Settings


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
            settle_root(root)
            published = Published(root.version(current.version).path, current, True, 0, None)
        else:
            published = publish_staged(settings, staged, manifest)
    for pointer in (verified_pointer(settings), staged_pointer(settings)):
        with suppress(OSError):  # it is published; what leads to a version that is staged no more harms nobody
            pointer.unlink()
    return published
