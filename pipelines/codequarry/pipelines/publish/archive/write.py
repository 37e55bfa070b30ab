"""Export of a published version as one file, verified byte by byte on the way."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.publish.archive.format import BASE, END, archive_size, header, padding
from codequarry.pipelines.publish.leaving import lease_base, lease_version
from codequarry.pipelines.store.durable import new_file, write_all
from codequarry.pipelines.store.workspace import Progress, silent
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import FILE_NAME, FileEntry, Manifest
from codequarry.schemas.errors import IntegrityError, InvalidArgumentError, UnavailableError
from codequarry.serving.files.disk import free_bytes

_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Exported:
    """An archive that was written."""

    path: Path
    manifest: Manifest
    size_bytes: int
    """Of the archive."""
    raw: bytes
    """Its ``manifest.json``, which a signature is of."""
    base: Manifest | None = None
    """Manifest of the base that the archive of a delta version holds."""


def export_version(
    root: BundleRoot,
    target: Path,
    version: str = "",
    progress: Progress = silent,
    *,
    force: bool = False,
    without_base: bool = False,
) -> Exported:
    """Write a version into one file, with nothing written under the bundle root.

    Nobody removes the version meanwhile. After an error nothing is left of what was written.

    Args:
        root: Bundle root.
        target: File to write.
        version: Name of the version; empty for the current one.
        progress: Told of the megabytes written.
        force: Replace a file that is there.
        without_base: Leave the base of a delta version out, for a machine that has it.

    Returns:
        The archive and its manifest.

    Raises:
        NotFoundError: There is no such version.
        NoBundleError: Nothing is published.
        IntegrityError: The version, or the base of a delta version, differs from its manifest.
        FormatError: Its format has no checksum of its own.
        InvalidArgumentError: The target is there already, or lies in a forbidden place.
        UnavailableError: The disk refuses, or has no room.
    """
    _check_target(root, target, force=force)
    with lease_version(root, version) as (paths, own), lease_base(root, own.manifest) as (base_paths, base):
        manifest, written = own.manifest, None if without_base else base
        size = archive_size(len(own.raw), manifest.files, written)
        try:
            _require_room(target, size)
            with new_file(target) as descriptor:
                write_all(descriptor, _manifest_member("", own.raw))
                total = manifest.size_bytes + (written.manifest.size_bytes if written is not None else 0)
                show = _add_progress(progress, total)
                if written is not None:
                    write_all(descriptor, _manifest_member(BASE, written.raw))
                    _write_files(descriptor, base_paths, written.manifest, BASE, show)
                _write_files(descriptor, paths, manifest, "", show)
                write_all(descriptor, END)
                _check_target(root, target, force=force)
        except OSError as error:
            raise UnavailableError(
                f"exporting {manifest.version} to {target} failed: {error.strerror or error}",
                suggestion="free disk space, or name a file on another disk; nothing was written",
            ) from error
    return Exported(target, manifest, size, own.raw, None if written is None else written.manifest)


def _manifest_member(prefix: str, raw: bytes) -> bytes:
    return header(prefix + FILE_NAME, len(raw)) + raw + padding(len(raw))


def _add_progress(progress: Progress, total: int) -> Callable[[int], None]:
    """Return what adds up bytes written, and shows their sum."""
    done = 0

    def add(size: int) -> None:
        nonlocal done
        done += size
        progress("exporting, MB", done // 1_000_000, total // 1_000_000)

    return add


def _write_files(
    descriptor: int, paths: BundlePaths, manifest: Manifest, prefix: str, show: Callable[[int], None]
) -> None:
    for entry in manifest.files:
        write_all(descriptor, header(prefix + entry.path, entry.size_bytes))
        for piece in _pieces(paths, entry):
            write_all(descriptor, piece)
            show(len(piece))
        write_all(descriptor, padding(entry.size_bytes))


def _pieces(paths: BundlePaths, entry: FileEntry) -> Iterator[bytes]:
    """Yield the bytes of a file in pieces.

    Args:
        paths: Paths of the version.
        entry: Entry of the file.

    Yields:
        Pieces of the file.

    Raises:
        IntegrityError: At the end, when the bytes are not those of the manifest.
    """
    digest, left = hashlib.sha256(), entry.size_bytes
    file = os.open(paths.path / entry.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        while left and (piece := os.read(file, min(left, _PIECE))):
            digest.update(piece)
            left -= len(piece)
            yield piece
        longer = os.read(file, 1)
    finally:
        os.close(file)
    if left or longer or digest.hexdigest() != entry.sha256:
        raise IntegrityError(
            f"version {paths.path.name} differs from its manifest: {entry.path}: sha256 {digest.hexdigest()[:12]}…, "
            f"expected {entry.sha256[:12]}…",
            suggestion="export another version, or roll back to it; see `codequarry verify --deep`",
        )


def _check_target(root: BundleRoot, target: Path, *, force: bool) -> None:
    if not target.parent.is_dir():
        raise InvalidArgumentError(f"{target.parent} is no folder", suggestion="make it first, or name another")
    inside, top = target.parent.resolve(), root.path.resolve()
    if inside == top or top in inside.parents:
        raise InvalidArgumentError(
            f"{target} lies under the bundle root, whose files are those of versions",
            suggestion="name a file elsewhere",
        )
    if not os.path.lexists(target):
        return
    if not stat.S_ISREG(target.lstat().st_mode):
        raise InvalidArgumentError(f"{target} is there and no regular file", suggestion="name another file")
    if not force:
        raise InvalidArgumentError(f"{target} is there already", suggestion="name another file, or add --force")


def _require_room(target: Path, size: int) -> None:
    free = free_bytes(target.parent)
    if free < size:
        raise UnavailableError(
            f"{target.parent}: {free / 1e6:,.1f} MB are free, the archive needs {size / 1e6:,.1f} MB",
            suggestion="free disk space, or name a file on another disk",
        )
