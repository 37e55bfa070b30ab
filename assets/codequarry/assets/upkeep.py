"""The job that prunes versions and cleans the store."""

from dataclasses import asdict

import dagster as dg

from codequarry.assets.metadata import markdown_table
from codequarry.assets.project import Project
from codequarry.assets.stages import POOL, logged
from codequarry.schemas.bundle.layout import BundleRoot


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
