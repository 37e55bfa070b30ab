"""Hard links to files of a published version: from a staged version, and from the work folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from codequarry.schemas.bundle.layout import STAGING_PREFIX, BundlePaths, BundleRoot, is_encoder_file
from codequarry.schemas.bundle.manifest import FileEntry, Manifest
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.settings.fleet import FleetSettings
from codequarry.serving.files.integrity import file_sha256, read_manifest


def link_unchanged(root: BundleRoot, staged: BundlePaths, manifest: Manifest) -> frozenset[str]:
    """Replace files by hard links to equal ones of the complete version that CURRENT is or lies over.

    A delta version gets links to its own base.

    Equal are path, size and sha256. A file of that version is hashed before it is linked: a damaged one would damage
    the new version as well. Where a link cannot be made (another file system, too many links, not permitted) the staged
    copy stays.

    Args:
        root: Bundle root, which names the current version.
        staged: Paths of the staged version.
        manifest: Manifest of the staged version.

    Returns:
        Paths that are links now.

    Raises:
        OSError: A link was made and could not be moved into place.
    """
    try:
        stack = manifest.stack
        if stack is None:
            current = root.read_current()
            base = root.version(current.version)
            below = read_manifest(base, expected_sha256=current.manifest_sha256)
            stack = below.stack
        if stack is not None:
            base = root.version(stack.base)
            below = read_manifest(base, expected_sha256=stack.base_sha256)
    except CodequarryError:
        return frozenset()
    held = {entry.path: entry for entry in below.files}
    return frozenset(
        entry.path
        for entry in manifest.files
        if _same(entry, held.get(entry.path)) and _linked(base.path / entry.path, staged.path / entry.path, entry)
    )


def link_all(base: BundlePaths, staged: BundlePaths, entries: list[FileEntry]) -> bool:
    """Link files of a version into a staged one, where they are not yet: all of them, or none.

    Each is hashed first. A linked file must never be written to: that would change the published file.

    Args:
        base: Paths of the version that has the files.
        staged: Paths of the staged version.
        entries: Files to link.

    Returns:
        True when all files are links.
    """
    done: list[Path] = []
    for entry in entries:
        if not _linked(base.path / entry.path, staged.path / entry.path, entry):
            for path in done:
                path.unlink()
            return False
        done.append(staged.path / entry.path)
    return True


def link_or_copy(source: Path, other: Path | None, target: Path, sha256: str) -> None:
    """Put a file into a staged version: a link to a published one with the same bytes, or else a copy.

    Args:
        source: File to copy.
        other: File of a published version, which is hashed before it is linked; None where there is none.
        target: Place of the file, which does not exist.
        sha256: Digest of the file.

    Raises:
        OSError: The file cannot be copied.
    """
    with suppress(OSError):
        if other is not None and not other.is_symlink() and file_sha256(other) == sha256:
            os.link(other, target, follow_symlinks=False)
            return
    shutil.copyfile(source, target)


def link_to_published(folder: Path, version: BundlePaths, manifest: Manifest) -> None:
    """Replace tables of a work folder by hard links to equal ones of a version, so that the disk has them once.

    The work folder never writes into a file: each is written anew under another name, and moved into place. Where a
    link cannot be made the file stays.

    Args:
        folder: Work folder of a repository.
        version: Paths of the version.
        manifest: Its manifest.
    """
    tables: dict[int, list[FileEntry]] = {}
    for entry in manifest.files:
        if entry.path.startswith("tables/"):
            tables.setdefault(entry.size_bytes, []).append(entry)
    for file in folder.rglob("*.parquet"):
        with suppress(OSError):
            for entry in tables.get(file.stat().st_size, ()):
                _link_if_equal(version.path / entry.path, file, entry.sha256)


def roots_beside(root: BundleRoot, fleet: FleetSettings) -> Iterator[BundleRoot]:
    """Yield the bundle roots of the other bundles that a fleet builds on this machine.

    Args:
        root: Bundle root.
        fleet: Folder of the bundles.

    Yields:
        Bundle roots by name; none when the root is that of no bundle of the fleet, or nothing was built here.
    """
    name = root.path.parent.name
    if root.path == fleet.bundle_root(name) and fleet.bundles.is_dir():
        for folder in sorted(fleet.bundles.iterdir()):
            if folder.name != name:
                yield BundleRoot(fleet.bundle_root(folder.name))


def encoder_files(roots: Iterable[BundleRoot]) -> dict[str, Path]:
    """Return the files of the encoders of one version, for bundles that have the same encoders.

    Args:
        roots: Bundle roots; the first whose current version can be read gives the files.

    Returns:
        Files by sha256; none where nothing can be read.
    """
    for root in roots:
        with suppress(CodequarryError, OSError):
            current = root.read_current()
            paths = root.version(current.version)
            files = read_manifest(paths, expected_sha256=current.manifest_sha256).files
            return {entry.sha256: paths.path / entry.path for entry in files if is_encoder_file(entry.path)}
    return {}


def _link_if_equal(source: Path, file: Path, sha256: str) -> None:
    """Replace a file by a link to another one when both have this sha256; raises OSError."""
    if not source.samefile(file) and file_sha256(file) == file_sha256(source) == sha256:
        aside = file.with_suffix(".link")
        aside.unlink(missing_ok=True)
        os.link(source, aside, follow_symlinks=False)
        os.replace(aside, file)


def _same(entry: FileEntry, other: FileEntry | None) -> bool:
    return other is not None and (entry.size_bytes, entry.sha256) == (other.size_bytes, other.sha256)


def _linked(source: Path, target: Path, entry: FileEntry) -> bool:
    with suppress(OSError):
        if source.samefile(target):
            return True
    # The link is made under a staging name beside the version, so that leftovers of a kill are outside the version.
    aside = _version_folder(target, entry).with_suffix(".link")
    try:
        aside.unlink(missing_ok=True)
        if source.is_symlink() or not source.is_file() or file_sha256(source) != entry.sha256:
            return False
        os.link(source, aside, follow_symlinks=False)
    except OSError:
        return False
    os.replace(aside, target)
    return True


def _version_folder(target: Path, entry: FileEntry) -> Path:
    folder = target.parents[entry.path.count("/")]
    # An import unpacks a delta version and its base into a bundle root of their own, which is a staging folder.
    assert any(each.name.startswith(STAGING_PREFIX) for each in (folder, folder.parent.parent)), folder
    return folder
