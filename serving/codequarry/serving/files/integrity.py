"""Comparison of a version on disk with its manifest; shared by the publish gate and the reader."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from codequarry.schemas.bundle.layout import STAGING_PREFIX, BundlePaths, BundleRoot, Current
from codequarry.schemas.bundle.manifest import Manifest, from_json
from codequarry.schemas.bundle.refs import RefName, read_ref
from codequarry.schemas.errors import CodequarryError, IntegrityError, ResourcesError
from codequarry.schemas.resources import raise_if_exhausted

_BLOCK = 1 << 20


def file_sha256(path: Path, *, after_block: Callable[[], None] | None = None) -> str:
    """Return the sha256 of a file's bytes in hex.

    Args:
        path: File to read.
        after_block: Called after every MiB; may sleep, so that others get the disk and the core, or raise to stop.

    Returns:
        64 hexadecimal digits.
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
    """Return paths of all entries below a folder except folders, sorted, '/' separated; raises as `file_sizes`."""
    return sorted(file_sizes(folder))


def file_sizes(folder: Path) -> dict[str, int]:
    """Return the size in bytes of all entries below a folder except folders, by path, '/' separated.

    Args:
        folder: Folder to scan.

    Returns:
        Sizes by path.

    Raises:
        IntegrityError: An entry is neither a regular file nor a folder (no links, no devices).
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

    Args:
        paths: Paths of the version.
        expected_sha256: Hash that CURRENT promises; None skips the comparison.

    Returns:
        The manifest.

    Raises:
        IntegrityError: The manifest is missing, is not the promised one, or names another version.
        FormatError: The manifest has a newer format.
    """
    return read_manifest_bytes(paths, expected_sha256=expected_sha256)[1]


def read_manifest_bytes(paths: BundlePaths, *, expected_sha256: str | None = None) -> tuple[bytes, Manifest]:
    """Return the bytes of a version's manifest, and the parsed manifest; arguments and errors as of `read_manifest`."""
    try:
        data = paths.manifest.read_bytes()
    except OSError as error:
        raise_if_exhausted(error, f"version {paths.path.name} cannot be read now")
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
    """List the differences between a version and its manifest.

    Args:
        paths: Paths of the version.
        manifest: Manifest of the version.
        deep: False compares names and sizes (quick, at every open); True also every sha256.
        sha256: Computes the digest of a file.

    Returns:
        The problem of each missing, unexpected or different file, by path.

    Raises:
        IntegrityError: An entry is neither a regular file nor a folder.
        OSError: A file cannot be read.
        ResourcesError: Nothing can be read now.
    """
    try:
        return _differences(paths, manifest, sha256 if deep else None)
    except OSError as error:
        raise_if_exhausted(error, f"version {paths.path.name} cannot be read now")
        raise


def _differences(paths: BundlePaths, manifest: Manifest, sha256: Callable[[Path], str] | None) -> dict[str, str]:
    listed = {entry.path: entry for entry in manifest.files}
    sizes = file_sizes(paths.path)
    sizes.pop(paths.manifest.name, None)
    found = dict.fromkeys(sorted(listed.keys() - sizes), "missing")
    found |= dict.fromkeys(sorted(sizes.keys() - listed), "not in the manifest")
    for name in sorted(listed.keys() & sizes):
        entry, size = listed[name], sizes[name]
        if size != entry.size_bytes:
            found[name] = f"{size} bytes, expected {entry.size_bytes}"
        elif sha256 is not None and (digest := sha256(paths.path / name)) != entry.sha256:
            found[name] = f"sha256 {digest[:12]}…, expected {entry.sha256[:12]}…"
    return found


def verify(paths: BundlePaths, manifest: Manifest, *, deep: bool, sha256: Callable[[Path], str] = file_sha256) -> None:
    """Check that the version holds exactly the manifest's files.

    Args:
        paths: Paths of the version.
        manifest: Manifest of the version.
        deep: See `differences`.
        sha256: See `differences`.

    Raises:
        IntegrityError: Files are missing, unexpected, or different; the message names them.
        OSError: As `differences`.
        ResourcesError: As `differences`.
    """
    problems = [f"{name}: {what}" for name, what in differences(paths, manifest, deep=deep, sha256=sha256).items()]
    if problems:
        shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
        raise IntegrityError(
            f"version {paths.path.name} differs from its manifest: {shown}",
            suggestion="do not serve this version; publish again",
        )


def current_manifest(root: BundleRoot) -> Manifest | None:
    """Read the manifest of CURRENT.

    Args:
        root: Bundle root.

    Returns:
        The manifest; None when readers would find no version, or refuse the one they find.

    Raises:
        ResourcesError: Nothing can be read now, so the answer is unknown.
    """
    try:
        return whole_manifest(root, root.read_current())
    except ResourcesError:
        raise
    except CodequarryError:
        return None


def ref_manifest(root: BundleRoot, name: RefName) -> Manifest | None:
    """Read the manifest of the version of a ref.

    Args:
        root: Bundle root.
        name: The ref.

    Returns:
        The manifest; None when there is no such ref, or readers would refuse its version.

    Raises:
        ResourcesError: Nothing can be read now, so the answer is unknown.
    """
    try:
        current = read_ref(root, name)
        return None if current is None else whole_manifest(root, current)
    except ResourcesError:
        raise
    except CodequarryError:
        return None


def whole_manifest(root: BundleRoot, current: Current) -> Manifest:
    """Return the manifest of a version whose files are there by name and size, as those of its base are.

    Args:
        root: Bundle root.
        current: Content of CURRENT, or of the file of a ref.

    Returns:
        The manifest.

    Raises:
        IntegrityError: The version is missing or damaged, or another than was promised.
    """
    paths = root.version(current.version)
    manifest = read_manifest(paths, expected_sha256=current.manifest_sha256)
    verify(paths, manifest, deep=False)
    if manifest.stack is not None:
        base_of(root, manifest)
    return manifest


def complete_manifest(root: BundleRoot) -> Manifest | None:
    """Read the manifest of the complete version that CURRENT is, or lies over.

    Args:
        root: Bundle root.

    Returns:
        The manifest; None when readers would find no version, or refuse the one they find.

    Raises:
        ResourcesError: Nothing can be read now, so the answer is unknown.
    """
    manifest = current_manifest(root)
    return manifest if manifest is None or manifest.stack is None else base_of(root, manifest)


def base_of(root: BundleRoot, manifest: Manifest) -> Manifest:
    """Return the manifest of the base of a delta version, whose files are there by name and size.

    Args:
        root: Bundle root.
        manifest: Manifest of the delta version.

    Returns:
        Manifest of its base.

    Raises:
        IntegrityError: The base is missing, damaged, or another than the delta version was made over.
    """
    stack = manifest.stack
    assert stack is not None
    paths = root.version(stack.base)
    try:
        base = read_manifest(paths, expected_sha256=stack.base_sha256)
        verify(paths, base, deep=False)
    except OSError as error:
        raise IntegrityError(
            f"{stack.base}, the base of {manifest.version}, cannot be read: {error.strerror}",
            suggestion="roll back to another version, or index again",
        ) from error
    except IntegrityError as error:
        raise IntegrityError(
            f"the base of {manifest.version} is damaged: {error.message}",
            suggestion="roll back to another version, or index again",
        ) from error
    if base.stack is not None:
        raise IntegrityError(
            f"the base of {manifest.version} is no complete version", suggestion="roll back, or index again"
        )
    return base


def is_whole(paths: BundlePaths) -> bool:
    """Tell whether a version has the files of its manifest, by name and size, and its base; raises `ResourcesError`."""
    try:
        manifest = read_manifest(paths)
        verify(paths, manifest, deep=False)
        if manifest.stack is not None:
            base_of(BundleRoot(paths.path.parent.parent), manifest)
    except ResourcesError:
        raise
    except (CodequarryError, OSError):
        return False
    return True


def unique_bytes(paths: BundlePaths) -> int:
    """Return the bytes that removing a version frees: those of files with one link; 0 for an unreadable version."""
    try:
        found = [(paths.path / name).stat() for name in list_files(paths.path)]
    except (CodequarryError, OSError):
        return 0
    return sum(stat.st_size for stat in found if stat.st_nlink == 1)
