"""CURRENT back to a version that is still there."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from codequarry.pipelines.publication import make_current, publishing
from codequarry.pipelines.retention import settle
from codequarry.schemas.errors import CodequarryError, IntegrityError, NoBundleError, NotFoundError, PublishError
from codequarry.schemas.integrity import read_manifest, verify
from codequarry.schemas.layout import BundleRoot
from codequarry.schemas.manifest import Manifest


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What CURRENT names now."""

    manifest: Manifest
    before: str
    """The version it named before; empty when it was damaged or gone."""


def roll_back(root: BundleRoot, version: str = "") -> RolledBack:
    """Point CURRENT at another published version, after reading every byte of it.

    version: empty for the one before CURRENT; where CURRENT is damaged or gone, for the newest whole one.

    Raises NotFoundError: there is no such version. IntegrityError: it is damaged. NoBundleError: nothing was ever
    published. BusyError: another process is publishing. PublishError: the disk refuses. CURRENT is as it was then.
    """
    with publishing(root):
        before = _current(root)
        try:
            if before:
                settle(root)
            manifest = _whole(root, version) if version else _previous(root, before)
            make_current(root, manifest.version)
        except OSError as error:
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


def _previous(root: BundleRoot, before: str) -> Manifest:
    older = [name for name in reversed(root.version_names()) if not before or name < before]
    if not older:
        raise NotFoundError(
            "there is no version before the current one", suggestion="name one of `codequarry versions`, or index again"
        )
    if before:
        return _whole(root, older[0])
    for name in older:
        with suppress(CodequarryError):
            return _whole(root, name)
    raise IntegrityError("every version is damaged", suggestion="index again: `codequarry index`")


def _whole(root: BundleRoot, name: str) -> Manifest:
    """The manifest of a version of which every byte was read."""
    paths = root.published(name)
    manifest = read_manifest(paths)
    verify(paths, manifest, deep=True)
    return manifest
