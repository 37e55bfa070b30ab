"""Rollback of CURRENT to a version that is still there."""

from __future__ import annotations

from dataclasses import dataclass

from codequarry.pipelines.publish.publish import make_current, publishing
from codequarry.pipelines.publish.retention import settle
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.errors import (
    CodequarryError,
    IntegrityError,
    NoBundleError,
    NotFoundError,
    PublishError,
    ResourcesError,
)
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.serving.files.integrity import base_of, read_manifest, verify
from codequarry.serving.files.version_order import only_of_refs, ordered_versions, versions_before


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The version that CURRENT names now, and the one before."""

    manifest: Manifest
    before: str
    """The version it named before; empty when it was damaged or gone."""


def roll_back(root: BundleRoot, version: str = "") -> RolledBack:
    """Point CURRENT at another published version, after reading every byte of it.

    After an error CURRENT is as it was.

    Args:
        root: Bundle root.
        version: Name of the version. Empty for the one before CURRENT, or for the newest whole one when CURRENT is
            damaged or gone.

    Returns:
        The version that is current now.

    Raises:
        NotFoundError: There is no such version.
        IntegrityError: The version is damaged.
        NoBundleError: Nothing was ever published.
        BusyError: Another process is publishing.
        PublishError: The disk refuses.
    """
    with publishing(root):
        before = _current(root)
        try:
            if before:
                settle(root)
            manifest = _whole(root, version) if version else _previous(root, before)
            make_current(root, manifest.version)
        except OSError as error:
            raise_if_exhausted(error, f"the versions under {root.path} cannot be read now")
            raise PublishError(
                f"rolling back failed: {error}", suggestion="fix the disk; see `codequarry versions` for CURRENT"
            ) from error
    return RolledBack(manifest, before)


def _current(root: BundleRoot) -> str:
    try:
        return root.read_current().version
    except IntegrityError:
        return ""
    except NoBundleError:
        if not root.version_names():
            raise
        return ""


def _of_current(root: BundleRoot) -> list[str]:
    other = only_of_refs(root)
    return [name for name in ordered_versions(root) if name not in other]


def _previous(root: BundleRoot, before: str) -> Manifest:
    older = list(reversed(versions_before(root, before) if before else _of_current(root)))
    if not older:
        raise NotFoundError(
            "there is no version before the current one", suggestion="name one of `codequarry versions`, or index again"
        )
    if before:
        return _whole(root, older[0])
    for name in older:
        try:
            return _whole(root, name)
        except ResourcesError:
            raise
        except CodequarryError:
            continue
    raise IntegrityError("every version is damaged", suggestion="index again: `codequarry index`")


def _whole(root: BundleRoot, name: str) -> Manifest:
    """Verify every byte of a version and of its base, and return its manifest."""
    paths = root.published(name)
    manifest = read_manifest(paths)
    verify(paths, manifest, deep=True)
    if manifest.stack is not None:
        base = base_of(root, manifest)
        verify(root.version(base.version), base, deep=True)
    return manifest
