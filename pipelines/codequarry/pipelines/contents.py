"""What the files of a version have to hold before it may be published: the gate for built and for imported ones."""

from __future__ import annotations

from codequarry.pipelines.acceptance import judge
from codequarry.schemas.checks import Check, check_version
from codequarry.schemas.layout import BundlePaths
from codequarry.schemas.manifest import Manifest
from codequarry.schemas.settings import Settings


def content_checks(paths: BundlePaths, manifest: Manifest, settings: Settings) -> tuple[Check, ...]:
    """Every check of what the files of a version hold, which are those of its manifest.

    Raises IntegrityError: a table or an index cannot be read.
    """
    return (*check_version(paths, manifest), *_plausible(manifest, settings))


def check_contents(paths: BundlePaths, manifest: Manifest, settings: Settings) -> None:
    """The same as a gate. Raises PublishError: checks failed; its message names each. IntegrityError: as above."""
    judge(manifest.version, content_checks(paths, manifest, settings))


def _plausible(manifest: Manifest, settings: Settings) -> list[Check]:
    counts, limits = manifest.counts, settings.checks
    size, budget = manifest.size_bytes / 1e6, limits.max_bundle_mb
    over = budget and size > budget
    share = counts.files / max(1, counts.files + counts.skipped_files)
    return [
        Check("chunks", counts.chunks >= limits.min_chunks, str(counts.chunks), f"at least {limits.min_chunks}"),
        Check(
            "share of files indexed",
            share >= limits.min_indexed_share,
            f"{share:.3f}",
            f"at least {limits.min_indexed_share}",
        ),
        Check(
            "size budget", not over, f"{size:.1f} MB", f"at most {limits.max_bundle_mb} MB" if budget else "any size"
        ),
    ]
