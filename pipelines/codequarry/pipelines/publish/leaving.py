"""Versions that are carried elsewhere: held meanwhile, with their manifests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import FILE_NAME, Manifest
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.files.integrity import base_of, read_manifest_bytes, verify
from codequarry.serving.files.lease import hold_version

MAX_MANIFEST_BYTES = 16 << 20
"""Most bytes of a manifest that are parsed; a file takes about 250 bytes of it, a repository about 1,000."""


class RawManifest(NamedTuple):
    """The manifest of a version that is carried to or from elsewhere: its bytes, and what they say."""

    raw: bytes
    """Bytes of ``manifest.json``."""
    manifest: Manifest

    @property
    def sha256(self) -> str:
        """Digest of the bytes, as CURRENT and delta versions name it (hex)."""
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def size_bytes(self) -> int:
        """Bytes of the version's files, the manifest included."""
        return self.manifest.size_bytes + len(self.raw)


@contextmanager
def lease_version(root: BundleRoot, version: str) -> Iterator[tuple[BundlePaths, RawManifest]]:
    """Yield a version, with its manifest, that nobody removes while the block runs; names and sizes are checked."""
    while True:
        current = None if version else root.read_current()
        paths = root.version(current.version) if current else root.published(version)
        try:
            hold = hold_version(paths)
            break
        except IntegrityError:
            # Replaced and pruned meanwhile, perhaps; a version that is still current is a broken one.
            if current is None or root.read_current() == current:
                raise
    with hold:
        raw, manifest = read_manifest_bytes(paths, expected_sha256=current.manifest_sha256 if current else None)
        check_manifest_size(len(raw))
        verify(paths, manifest, deep=False)
        yield paths, RawManifest(raw, manifest)


@contextmanager
def lease_base(root: BundleRoot, manifest: Manifest) -> Iterator[tuple[BundlePaths, RawManifest | None]]:
    """Yield the base of a delta version, which nobody removes while the block runs; None for a complete version."""
    stack = manifest.stack
    if stack is None:
        yield BundlePaths(root.path), None
        return
    base_of(root, manifest)
    paths = root.version(stack.base)
    with hold_version(paths):
        base_of(root, manifest)
        raw, base = read_manifest_bytes(paths, expected_sha256=stack.base_sha256)
        check_manifest_size(len(raw))
        yield paths, RawManifest(raw, base)


def check_manifest_size(size: int) -> None:
    """Raise IntegrityError when a manifest has too many bytes to be read."""
    if size > MAX_MANIFEST_BYTES:
        raise IntegrityError(
            f"{FILE_NAME} has {size:,} bytes, expected {MAX_MANIFEST_BYTES:,} at most",
            suggestion="index fewer repositories into one version",
        )
