"""Comparing a version on disk with its manifest; shared by the publish gate and the reader."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from codequarry.schemas.errors import CodequarryError, IntegrityError
from codequarry.schemas.layout import STAGING_PREFIX, BundlePaths, BundleRoot
from codequarry.schemas.manifest import Manifest, from_json

_BLOCK = 1 << 20


def file_sha256(path: Path, *, after_block: Callable[[], None] | None = None) -> str:
    """sha256 hex of a file's bytes.

    after_block: called after every MiB; may sleep, so that others get the disk and the core, or raise to stop.
    """
    with path.open("rb") as stream:
        if after_block is None:
            return hashlib.file_digest(stream, "sha256").hexdigest()
        digest = hashlib.sha256()
        while block := stream.read(_BLOCK):
            digest.update(block)
            after_block()
        return digest.hexdigest()


def list_files(folder: Path) -> list[str]:
    """Paths of all entries below a folder that are not folders, sorted, '/' separated; raises as `file_sizes`."""
    return sorted(file_sizes(folder))


def file_sizes(folder: Path) -> dict[str, int]:
    """Size in bytes of all entries below a folder that are not folders, by path, '/' separated.

    Raises IntegrityError: an entry is neither a regular file nor a folder (no links, no devices).
    """
    found: dict[str, int] = {}
    pending = [os.fspath(folder)]
    above = len(pending[0]) + 1
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    pending.append(entry.path)
                elif stat.S_ISREG(status.st_mode):
                    found[entry.path[above:]] = status.st_size
                else:
                    raise IntegrityError(
                        f"{entry.name} in version {folder.name} is not a regular file",
                        suggestion="do not serve this version; publish again",
                    )
    return found


def read_manifest(paths: BundlePaths, *, expected_sha256: str | None = None) -> Manifest:
    """Read and parse a version's manifest.

    expected_sha256: what CURRENT promises; None skips the comparison.

    Raises IntegrityError: it is missing, is not the promised one, or names another version. FormatError: a newer one.
    """
    return read_manifest_bytes(paths, expected_sha256=expected_sha256)[1]


def read_manifest_bytes(paths: BundlePaths, *, expected_sha256: str | None = None) -> tuple[bytes, Manifest]:
    """The bytes of a version's manifest, and what they say; arguments and errors as of `read_manifest`."""
    try:
        data = paths.manifest.read_bytes()
    except OSError as error:
        raise IntegrityError(
            f"version {paths.path.name} has no readable manifest.json ({error.strerror})",
            suggestion="roll back to another version, or publish again",
        ) from error
    found = hashlib.sha256(data).hexdigest()
    if expected_sha256 is not None and found != expected_sha256:
        raise IntegrityError(
            f"manifest.json of {paths.path.name} has sha256 {found[:12]}…, CURRENT promises {expected_sha256[:12]}…",
            suggestion="the version was changed after it was published; publish again",
        )
    manifest = from_json(data)
    if manifest.version != paths.path.name and not paths.path.name.startswith(STAGING_PREFIX):
        raise IntegrityError(
            f"the manifest of {paths.path.name} names another version",
            suggestion="the version was changed after it was published; roll back, or publish again",
        )
    return data, manifest


def differences(
    paths: BundlePaths, manifest: Manifest, *, deep: bool, sha256: Callable[[Path], str] = file_sha256
) -> dict[str, str]:
    """How the version differs from its manifest: path of each missing, unexpected or different file -> what was found.

    deep: False compares names and sizes (quick, at every open); True also every sha256.
    sha256: how a file is read for that.

    Raises IntegrityError: an entry is neither a regular file nor a folder.
    """
    listed = {entry.path: entry for entry in manifest.files}
    sizes = file_sizes(paths.path)
    sizes.pop(paths.manifest.name, None)
    found = dict.fromkeys(sorted(listed.keys() - sizes), "missing")
    found |= dict.fromkeys(sorted(sizes.keys() - listed), "not in the manifest")
    for name in sorted(listed.keys() & sizes):
        entry, size = listed[name], sizes[name]
        if size != entry.size_bytes:
            found[name] = f"{size} bytes, expected {entry.size_bytes}"
        elif deep and (digest := sha256(paths.path / name)) != entry.sha256:
            found[name] = f"sha256 {digest[:12]}…, expected {entry.sha256[:12]}…"
    return found


def verify(paths: BundlePaths, manifest: Manifest, *, deep: bool, sha256: Callable[[Path], str] = file_sha256) -> None:
    """Check that the version holds exactly the manifest's files; arguments as of `differences`.

    Raises IntegrityError: naming every file that is missing, unexpected, or different.
    """
    problems = [f"{name}: {what}" for name, what in differences(paths, manifest, deep=deep, sha256=sha256).items()]
    if problems:
        shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
        raise IntegrityError(
            f"version {paths.path.name} differs from its manifest: {shown}",
            suggestion="do not serve this version; publish again",
        )


def current_manifest(root: BundleRoot) -> Manifest | None:
    """The manifest of CURRENT; None when readers would find no version, or refuse the one they find."""
    try:
        current = root.read_current()
        paths = root.version(current.version)
        manifest = read_manifest(paths, expected_sha256=current.manifest_sha256)
        verify(paths, manifest, deep=False)
    except CodequarryError:
        return None
    return manifest


def is_whole(paths: BundlePaths) -> bool:
    """Whether a version has the files of its manifest, by name and size."""
    try:
        verify(paths, read_manifest(paths), deep=False)
    except (CodequarryError, OSError):
        return False
    return True


def unique_bytes(paths: BundlePaths) -> int:
    """Bytes that removing a version frees: those of files with no other link; 0 where it cannot be read."""
    try:
        found = [(paths.path / name).stat() for name in list_files(paths.path)]
    except (CodequarryError, OSError):
        return 0
    return sum(stat.st_size for stat in found if stat.st_nlink == 1)
