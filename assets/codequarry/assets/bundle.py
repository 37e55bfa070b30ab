"""Stages 6 to 8 as assets: the version of the whole bundle, staged, verified, published.

The repositories are those of the settings, whatever else lies in the work folder.
"""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from codequarry.assets.metadata import bundle_metadata, counts_table, markdown_table
from codequarry.assets.project import Project
from codequarry.assets.stages import bundle_asset, once
from codequarry.pipelines.sources import named
from codequarry.pipelines.workspace import Progress
from codequarry.schemas.integrity import read_manifest
from codequarry.schemas.layout import BundlePaths, BundleRoot
from codequarry.schemas.settings import Settings

_EVERY_REPOSITORY = tuple(
    dg.AssetDep(asset, partition_mapping=dg.AllPartitionMapping())
    for asset in ("repository_embeddings", "repository_modules", "repository_scip", "repository_syntax")
)


@bundle_asset("staging.stage_bundle", kinds={"faiss", "tantivy", "duckdb"}, after=_EVERY_REPOSITORY)
def staged_bundle(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return once(context, project, _stage)


def _stage(settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.pipelines.staging import stage_bundle

    staged = stage_bundle(list(named(settings.sources.repositories)), settings, progress)
    milliseconds = {part: round(1000 * seconds) for part, seconds in staged.seconds.items()}
    shards = {"shards": len(staged.manifest.shards), "reused_shards": staged.reused_shards}
    return {**bundle_metadata(staged.manifest), **shards, "milliseconds": counts_table(milliseconds, "part")}


@bundle_asset("verification.verify_staged", kinds={"duckdb"}, after=(dg.AssetDep("staged_bundle"),))
def verified_bundle(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
    return once(context, project, _verify)


def _verify(settings: Settings, progress: Progress) -> Mapping[str, Any]:
    from codequarry.assets.verdict import read_verdict, verdict_names
    from codequarry.pipelines.verification import verify_staged

    verification = verify_staged(settings, progress)
    checks = [{"check": check.name, "found": check.found, "expected": check.expected} for check in verification.checks]
    root, verdict = BundleRoot(settings.bundle.root), {}
    if verification.version in verdict_names(root):
        verdict = {"verdict": dg.MetadataValue.md(read_verdict(root, verification.version))}
    return {
        **verdict,
        "checks_passed": len(checks),
        "checks": markdown_table(checks, ("check", "found", "expected")),
        **bundle_metadata(read_manifest(BundlePaths(verification.path))),
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
        **bundle_metadata(published.manifest),
    }
