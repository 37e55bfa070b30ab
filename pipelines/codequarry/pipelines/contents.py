"""What the files of a version have to hold before it may be published: the gate for built and for imported ones."""

from __future__ import annotations

from collections.abc import Sequence

from codequarry.schemas.checks import Check, check_version
from codequarry.schemas.errors import PublishError
from codequarry.schemas.layout import BundlePaths
from codequarry.schemas.manifest import Manifest
from codequarry.schemas.settings import Settings


def check_contents(paths: BundlePaths, manifest: Manifest, settings: Settings) -> tuple[Check, ...]:
    """Every check of what the files of a version hold, which are those of its manifest.

    Raises PublishError: checks failed; its message names each. IntegrityError: a table or an index cannot be read.
    """
    checks = (*check_version(paths, manifest), *_plausible(manifest, settings))
    require_passed(manifest.version, checks)
    return checks


def require_passed(version: str, checks: Sequence[Check]) -> None:
    """Raises PublishError: checks failed; its message names each."""
    failed = [check for check in checks if not check.passed]
    if failed:
        reasons = "; ".join(f"{check.name}: {check.found}, expected {check.expected}" for check in failed)
        raise PublishError(
            f"the staged version {version} is not fit to publish: {reasons}",
            suggestion="CURRENT is unchanged; fix the cause or change [checks], then run again",
        )


def _plausible(manifest: Manifest, settings: Settings) -> list[Check]:
    counts, limits = manifest.counts, settings.checks
    share = counts.files / max(1, counts.files + counts.skipped_files)
    return [
        Check("chunks", counts.chunks >= limits.min_chunks, str(counts.chunks), f"at least {limits.min_chunks}"),
        Check(
            "share of files indexed",
            share >= limits.min_indexed_share,
            f"{share:.3f}",
            f"at least {limits.min_indexed_share}",
        ),
    ]
