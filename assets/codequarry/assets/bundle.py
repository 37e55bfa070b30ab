"""Stages 6 to 8 as assets: the version of the whole bundle, staged, verified, published.

The repositories are those of the settings, whatever else lies in the work folder.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import dagster as dg

from codequarry.assets.metadata import bundle_metadata, counts_table, markdown_table
from codequarry.assets.plots import bar_plot, frontier_plot
from codequarry.assets.project import Project
from codequarry.assets.stages import bundle_asset, once
from codequarry.pipelines.sources import named
from codequarry.pipelines.workspace import Progress
from codequarry.schemas.faiss_tuning import read_tuning
from codequarry.schemas.integrity import read_manifest
from codequarry.schemas.layout import BundlePaths, BundleRoot
from codequarry.schemas.manifest import Manifest
from codequarry.schemas.settings import Settings

ACCEPT_TAG = "codequarry/accept_regression"
"""Run tag whose value says why regressions against CURRENT are well, as `codequarry index --accept-regression` does."""

_REASON_CHARS = 1_000
_SHOWN_VERSIONS = 8
_EVERY_REPOSITORY = tuple(
    dg.AssetDep(asset, partition_mapping=dg.AllPartitionMapping())
    for asset in ("repository_embeddings", "repository_modules", "repository_scip", "repository_syntax")
)


@bundle_asset("staging.stage_bundle", kinds={"faiss", "tantivy", "duckdb"}, after=_EVERY_REPOSITORY)
def staged_bundle(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return once(context, project, _stage)


def _stage(settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.late_gain import measure_late
    from codequarry.pipelines.staging import stage_bundle

    late = measure_late(settings, progress)
    staged = stage_bundle(list(named(settings.sources.repositories)), settings, progress)
    milliseconds = {part: round(1000 * seconds) for part, seconds in staged.seconds.items()}
    shards = {"shards": len(staged.manifest.shards), "reused_shards": staged.reused_shards}
    said = {"late_interaction": late.verdict.said} if late is not None else {}
    ordered = dict(sorted(milliseconds.items(), key=lambda item: -item[1]))
    return {
        **bundle_metadata(staged.manifest),
        **shards,
        **said,
        "milliseconds": counts_table(milliseconds, "part"),
        "time_by_part": bar_plot("Time of staging by part", ordered, unit=" ms"),
    }


@bundle_asset("verification.verify_staged", kinds={"duckdb"}, after=(dg.AssetDep("staged_bundle"),))
def verified_bundle(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    reason = context.run.tags.get(ACCEPT_TAG)
    return once(context, project, lambda settings, progress: _verify(settings, progress, reason))


def _verify(settings: Settings, progress: Progress, reason: str | None) -> Mapping[str, Any]:
    from codequarry.assets.verdict import verdict_names
    from codequarry.pipelines.acceptance import checked_reason
    from codequarry.pipelines.verification import verify_staged

    verification = verify_staged(settings, progress, accept=checked_reason(reason))
    checks = [{"check": check.name, "found": check.found, "expected": check.expected} for check in verification.checks]
    accepted = [each.model_dump() for each in verification.accepted]
    root, paths = BundleRoot(settings.bundle.root), BundlePaths(verification.path)
    manifest = read_manifest(paths)
    asked = verification.version in verdict_names(root)
    return {
        **(_verdict(root, verification.version) if asked else {}),
        **_frontiers(paths, manifest),
        "checks_passed": len(checks) - len(accepted),
        "accepted": markdown_table(accepted, ("check", "found", "expected", "reason"), cell_chars=_REASON_CHARS)
        if accepted
        else "nothing",
        "checks": markdown_table(checks, ("check", "found", "expected")),
        **bundle_metadata(manifest),
    }


def _verdict(root: BundleRoot, version: str) -> dict[str, Any]:
    """The verdict page, without the plots that lie beside it, and the time of a search of both versions."""
    from codequarry.assets.verdict import read_verdict

    page = re.sub(r"\n!\[[^]]*\]\([^)]*\)\n", "", read_verdict(root, version))
    runs = json.loads(read_verdict(root, version, "verdict.json"))["runs"]
    times = {f"{name} {part}": run["latency_ms"][part] for name, run in runs.items() for part in ("p50", "p95")}
    drawn = {"latency": bar_plot("Time of a search", times, unit=" ms", digits=1)} if times else {}
    return {"verdict": dg.MetadataValue.md(page), **drawn}


def _frontiers(paths: BundlePaths, manifest: Manifest) -> dict[str, Any]:
    """Recall by what is compared, of each dense index that is not exact."""
    tunings = {leg.channel: read_tuning(paths.leg(leg.channel).tuning) for leg in manifest.legs}
    return {
        f"recall_{channel}": frontier_plot(tuning)
        if tuning is not None
        else f"exact: all {manifest.counts.chunks:,} vectors are compared"
        for channel, tuning in tunings.items()
    }


@bundle_asset("publisher.publish_verified", kinds={"file"}, after=(dg.AssetDep("verified_bundle"),))
def published_bundle(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return once(context, project, _publish)


def _publish(settings: Settings, _progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.publisher import publish_verified

    published = publish_verified(settings)
    return {
        "unchanged": published.unchanged,
        "linked_bytes": published.linked_bytes,
        "removed_versions": list(published.pruned.removed) if published.pruned else [],
        "created": published.manifest.created,
        "path": dg.MetadataValue.path(published.path),
        "chunks_by_version": bar_plot("Chunks by version", _chunks_by_version(settings)),
        **bundle_metadata(published.manifest),
    }


def _chunks_by_version(settings: Settings) -> dict[str, float]:
    """Of the newest versions that can be read, by month, day and time of their build, newest first."""
    from codequarry.schemas.registry import read_registry

    rows = read_registry(BundleRoot(settings.bundle.root))[0].to_pylist()
    newest = reversed(rows[-_SHOWN_VERSIONS:])
    return {f"{row['created']:%m-%d %H:%M}": row["chunks"] for row in newest if not row["problem"]}
