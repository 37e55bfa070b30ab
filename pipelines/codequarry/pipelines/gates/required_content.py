"""Required contents of a version before it may be published: the gate for built and for imported versions."""

from __future__ import annotations

import tempfile

from codequarry.pipelines.gates.accept import judge
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import Manifest, content_digest
from codequarry.schemas.errors import CodequarryError, IntegrityError, PublishError
from codequarry.schemas.settings.load import ChecksSettings
from codequarry.serving.files.compatibility import differences
from codequarry.serving.files.integrity import base_of
from codequarry.serving.version.file_checks import Check, check_version

CHUNKS, INDEXED, SIZE = "chunks", "share of files indexed", "size budget"
LIMITS = (CHUNKS, INDEXED, SIZE)
"""Every check of this module against [checks]."""


def content_checks(paths: BundlePaths, manifest: Manifest, limits: ChecksSettings) -> tuple[Check, ...]:
    """Check the contents of a version's files.

    Args:
        paths: Paths of the version, whose files are those of its manifest.
        manifest: Its manifest.
        limits: Limits of the checks.

    Returns:
        Every check.

    Raises:
        IntegrityError: A table or an index cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix=f"{paths.path.name}.", dir=paths.path.parent) as spill:
        return (*check_version(paths, manifest, spill=spill), *_plausible(paths, manifest, limits))


def check_contents(paths: BundlePaths, manifest: Manifest, limits: ChecksSettings) -> None:
    """Require that the checks of `content_checks` pass.

    Args:
        paths: Paths of the version.
        manifest: Its manifest.
        limits: Limits of the checks.

    Raises:
        PublishError: Checks failed; the message names each.
        IntegrityError: A table or an index cannot be read.
    """
    judge(manifest.version, content_checks(paths, manifest, limits))


def check_imported(paths: BundlePaths, manifest: Manifest, limits: ChecksSettings) -> None:
    """Require the same of a version that was built elsewhere, whatever its manifest says of compatibility.

    Args:
        paths: Paths of the version.
        manifest: Its manifest.
        limits: Limits of the checks.

    Raises:
        PublishError: Checks failed; the message names each.
        IntegrityError: A table or an index cannot be read, or the digest is not that of the manifest's parts.
    """
    unlike = differences(manifest)
    try:
        check_contents(paths, manifest, limits)
    except CodequarryError as error:
        if not unlike:
            raise
        raise PublishError(
            f"{error.message}; it was built otherwise than this program builds: {', '.join(unlike)}",
            suggestion="index again with this program, or import with the one that built it; CURRENT is unchanged",
        ) from error
    _check_digest(manifest)


def _check_digest(manifest: Manifest) -> None:
    """Raise IntegrityError when the digest, or the name that bears it, does not match the contents."""
    digest = content_digest(
        sources=manifest.sources,
        settings_sha256=manifest.settings_sha256,
        encoders=[leg.encoder for leg in manifest.legs],
        files=manifest.files,
    )
    named = manifest.version.split("-")[1]
    if digest != manifest.digest or not digest.startswith(named):
        raise IntegrityError(
            f"the manifest of {manifest.version} has the digest {manifest.digest[:12]}…, its contents {digest[:12]}…",
            suggestion="take the archive from whom you trust; CURRENT is unchanged",
        )


def _plausible(paths: BundlePaths, manifest: Manifest, limits: ChecksSettings) -> list[Check]:
    """Check counts and size; those of a delta version are of base and delta together."""
    counts, size, budget = manifest.counts, manifest.size_bytes / 1e6, limits.max_bundle_mb
    if manifest.stack is not None:
        size += base_of(BundleRoot(paths.path.parent.parent), manifest).size_bytes / 1e6
    over = budget and size > budget
    share = counts.files / max(1, counts.files + counts.skipped_files)
    return [
        Check(CHUNKS, counts.chunks >= limits.min_chunks, str(counts.chunks), f"at least {limits.min_chunks}"),
        Check(
            INDEXED,
            share >= limits.min_indexed_share,
            f"{share:.3f}",
            f"at least {limits.min_indexed_share}",
        ),
        Check(SIZE, not over, f"{size:.1f} MB", f"at most {limits.max_bundle_mb} MB" if budget else "any size"),
    ]
