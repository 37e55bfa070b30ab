"""Stages 6 to 8 as assets: the version of the whole bundle, staged, verified, published.

The repositories are those of the settings, whatever else lies in the work folder.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import dagster as dg

from codequarry.assets.metadata import bar_plot, bundle_metadata, counts_table, frontier_plot, markdown_table
from codequarry.assets.pointers import read_pointer, remove_pointers, write_pointer
from codequarry.assets.project import Project
from codequarry.assets.stages import POOL, bundle_asset, logged, once
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.workspace import Progress
from codequarry.schemas.bundle.faiss_tuning import read_tuning
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.integrity import read_manifest

ACCEPT_TAG = "codequarry/accept_regression"
"""Run tag whose value is the reason for accepting regressions against CURRENT, as with `codequarry index
--accept-regression`."""

_REASON_CHARS = 1_000
_SHOWN_VERSIONS = 8
_EVERY_SNAPSHOT = (dg.AssetDep("repository_snapshot", partition_mapping=dg.AllPartitionMapping()),)
_EVERY_REPOSITORY = tuple(
    dg.AssetDep(asset, partition_mapping=dg.AllPartitionMapping())
    for asset in ("repository_embeddings", "repository_modules", "repository_scip", "repository_syntax")
)


@bundle_asset("bundle.stage.stage_bundle", kinds={"faiss", "tantivy", "duckdb"}, after=_EVERY_REPOSITORY)
def staged_bundle(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return once(context, project, _stage)


def _stage(settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.bundle.stage import stage_bundle

    staged = stage_bundle(list(repositories_by_name(settings.sources.repositories)), settings, progress)
    write_pointer(settings.paths.work, staged)
    milliseconds = {part: round(1000 * seconds) for part, seconds in staged.seconds.items()}
    shards = {"shards": len(staged.manifest.shards), "reused_shards": staged.reused_shards}
    warp = staged.manifest.warp
    said = {"late_interaction": warp.measured} if warp is not None and warp.measured else {}
    ordered = dict(sorted(milliseconds.items(), key=lambda item: -item[1]))
    return {
        **bundle_metadata(staged.manifest),
        **shards,
        **said,
        "milliseconds": counts_table(milliseconds, "part"),
        "time_by_part": bar_plot("Time of staging by part", ordered, unit=" ms"),
    }


@bundle_asset("evaluation.late_gain.measure_late", kinds={"numpy"}, after=_EVERY_SNAPSHOT, group="evaluation")
def late_interaction_gain(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return once(context, project, _measure_late)


def _measure_late(settings: Settings, progress: Progress) -> Mapping[str, Any]:
    if not settings.late_interaction:
        return {"late_interaction": "the settings have none: nothing is measured"}
    from codequarry.pipelines.evaluation.late_gain import measure_late

    verdict = measure_late(settings, progress)
    return {"helps": verdict.helps, "late_interaction": verdict.said}


@bundle_asset("gates.verify.verify_staged", kinds={"duckdb"}, after=(dg.AssetDep("staged_bundle"),))
def verified_bundle(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    reason = context.run.tags.get(ACCEPT_TAG)
    return once(context, project, lambda settings, progress: _verify(settings, progress, reason))


def _verify(settings: Settings, progress: Progress, reason: str | None) -> Mapping[str, Any]:
    from codequarry.pipelines.bundle.stage import Staged
    from codequarry.pipelines.gates.accept import checked_reason
    from codequarry.pipelines.gates.answers.verdict import verdict_names
    from codequarry.pipelines.gates.verify import Verified, verify_staged

    staged = read_pointer(settings.paths.work, Staged)
    remove_pointers(settings.paths.work, Verified)
    verified = verify_staged(staged, settings, progress, accept=checked_reason(reason))
    write_pointer(settings.paths.work, verified)
    checks = [{"check": check.name, "found": check.found, "expected": check.expected} for check in verified.checks]
    accepted = [each.model_dump() for each in verified.accepted]
    root, paths = BundleRoot(settings.bundle.root), BundlePaths(verified.path)
    manifest = read_manifest(paths)
    asked = verified.version in verdict_names(root)
    return {
        **(_verdict(root, verified.version) if asked else {}),
        **_frontiers(paths, manifest),
        "checks_passed": len(checks) - len(accepted),
        "accepted": markdown_table(accepted, ("check", "found", "expected", "reason"), cell_chars=_REASON_CHARS)
        if accepted
        else "nothing",
        "checks": markdown_table(checks, ("check", "found", "expected")),
        **bundle_metadata(manifest),
    }


def _verdict(root: BundleRoot, version: str) -> dict[str, Any]:
    """Return the verdict page without its plots, and a plot of the search times of both versions."""
    from codequarry.pipelines.gates.answers.verdict import read_verdict

    page = re.sub(r"\n!\[[^]]*\]\([^)]*\)\n", "", read_verdict(root, version))
    runs = json.loads(read_verdict(root, version, "verdict.json"))["runs"]
    times = {f"{name} {part}": run["latency_ms"][part] for name, run in runs.items() for part in ("p50", "p95")}
    drawn = {"latency": bar_plot("Time of a search", times, unit=" ms", digits=1)} if times else {}
    return {"verdict": dg.MetadataValue.md(page), **drawn}


def _frontiers(paths: BundlePaths, manifest: Manifest) -> dict[str, Any]:
    """Return a plot of recall by vectors compared for each approximate dense index, and a note for each exact one."""
    tunings = {leg.channel: read_tuning(paths.leg(leg.channel).tuning) for leg in manifest.legs}
    return {
        f"recall_{channel}": frontier_plot(tuning)
        if tuning is not None and tuning.queries
        else f"exact: all {manifest.counts.chunks:,} vectors are compared"
        for channel, tuning in tunings.items()
    }


@bundle_asset("publish.publish.publish_verified", kinds={"file"}, after=(dg.AssetDep("verified_bundle"),))
def published_bundle(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return once(context, project, _publish)


def _publish(settings: Settings, _progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.bundle.stage import Staged
    from codequarry.pipelines.gates.verify import Verified
    from codequarry.pipelines.publish.publish import publish_verified

    published = publish_verified(read_pointer(settings.paths.work, Verified), settings.bundle)
    with suppress(OSError):  # it is published; a pointer to a version that is gone does no harm
        remove_pointers(settings.paths.work, Verified, Staged)
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
    """Return the chunk counts of the newest readable versions by month, day and time of their build, newest first."""
    from codequarry.serving.catalog.registry import read_registry

    rows = read_registry(BundleRoot(settings.bundle.root))["manifests"].to_pylist()
    newest = reversed(rows[-_SHOWN_VERSIONS:])
    whole = [row for row in newest if not row["problem"]]
    return {f"{row['created']:%m-%d %H:%M}" if row["created"] else row["version"]: row["chunks"] for row in whole}


@dg.op(
    pool=POOL,
    out=dg.Out(dg.Nothing),
    description="Removes versions that [bundle] keep_versions and keep_days do not keep, and what killed runs left. "
    "The current version, one to roll back to, and every version a reader holds stay.",
)
def prune_versions(context: dg.OpExecutionContext, project: Project) -> None:
    from codequarry.pipelines.publish.publish import publishing
    from codequarry.pipelines.publish.retention import prune
    from codequarry.serving.files.version_order import ordered_versions

    with project.explained(context.retry_number) as settings:
        root = BundleRoot(settings.bundle.root)
        if not root.versions.is_dir():
            context.log.info(f"nothing is published under {root.path}")
            return
        with publishing(root):
            done = prune(root, settings.bundle)
        context.add_output_metadata(
            {
                "removed": list(done.removed),
                "held_by_readers": list(done.held),
                "leftovers": list(done.leftovers),
                "freed_bytes": done.freed_bytes,
                "versions": ordered_versions(root),
            }
        )


@dg.op(
    pool=POOL,
    ins={"pruned": dg.In(dg.Nothing)},
    out=dg.Out(dg.Nothing),
    description="Checks every entry of the store; removes damaged ones and what [automation] store_days did not use.",
)
def sweep_store(context: dg.OpExecutionContext, project: Project) -> None:
    from codequarry.pipelines.bundle import gc as store_gc

    with project.explained(context.retry_number) as settings:
        days = settings.automation.store_days
        cleaned = store_gc.clean_store(settings, unused_days=days, progress=logged(context))
        rows = [asdict(each) for each in cleaned]
        context.add_output_metadata(
            {
                "freed_bytes": sum(each.freed_bytes for each in cleaned),
                "store": markdown_table(rows, ("what", "kept", "damaged", "unused", "freed_bytes")),
            }
        )


@dg.job(
    description="Prunes versions, then cleans the store. Both are safe at any time: what is served or needed stays.",
)
def retention() -> None:
    sweep_store(prune_versions())
