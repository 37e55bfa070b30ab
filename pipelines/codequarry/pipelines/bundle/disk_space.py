"""Checks of free disk space that stop a run before it does any work."""

from __future__ import annotations

from pathlib import Path

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import PublishError
from codequarry.serving.files.disk import RESERVE_BYTES, Space, free_bytes, room_for_version


def require_space(root: BundleRoot) -> None:
    """Raise PublishError when the bundle root has no room for one more version."""
    _require(room_for_version(root), "the next version", "[bundle] root")


def require_space_for_files(root: BundleRoot, size: int) -> None:
    """Raise PublishError when the bundle root has no room for a version of that many bytes."""
    _require(Space(root.path, free_bytes(root.path), size + RESERVE_BYTES), "the version", "[bundle] root")


def require_space_for_run(root: BundleRoot, work: Path) -> None:
    """Require room for a whole run: stage outputs in the work folder, a version under the bundle root.

    An output is written beside the one it replaces, so that the largest of them is needed once more.

    Args:
        root: Bundle root.
        work: The work folder.

    Raises:
        PublishError: A file system has too little free space.
    """
    version = room_for_version(root)
    outputs = [file.stat().st_size for file in work.rglob("*") if file.is_file()]
    stages = Space(work, free_bytes(work), max(outputs, default=0) + RESERVE_BYTES)
    if _device(version.path) == _device(work):
        version = Space(version.path, version.free, version.needed + stages.needed - RESERVE_BYTES)
    else:
        _require(stages, "the outputs of the stages", "[paths] work")
    _require(version, "the next version", "[bundle] root")


def _require(space: Space, what: str, setting: str) -> None:
    if not space.enough:
        raise PublishError(
            f"{space.path}: {space.free / 1e6:,.0f} MB are free, {what} may need {space.needed / 1e6:,.0f} MB",
            suggestion=f"free disk space, run `codequarry prune`, or move {setting}; CURRENT is unchanged",
        )


def _device(path: Path) -> int:
    return next(folder for folder in (path, *path.parents) if folder.exists()).stat().st_dev
