"""The assets of a fleet: a version of each bundle, built in a run of its own, and the generation that is served."""

import time
import warnings
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

import dagster as dg

from codequarry.assets.metadata import markdown_table
from codequarry.assets.project import Project
from codequarry.assets.stages import OWNERS, described, logged
from codequarry.pipelines.store.library_versions import own_version

if TYPE_CHECKING:  # they bring obstore and the stages, which the definitions do without
    from codequarry.pipelines.fleet.bundle_builds import BuiltBundle
    from codequarry.pipelines.fleet.fleet_build import FleetBuild

BUNDLES = "bundles"
"""Name of the partitions."""
FLEET_BUNDLE, FLEET_GENERATION = "fleet_bundle", "fleet_generation"
EVERY_CHECK = "every_repository_is_served_anew"
bundles = dg.DynamicPartitionsDefinition(name=BUNDLES)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", dg.BetaWarning)  # backfill_policy; the tests launch such runs in every way

    @dg.asset(
        name=FLEET_BUNDLE,
        description=described("fleet.planned_bundles.build_planned_bundle"),
        group_name="fleet",
        owners=OWNERS,
        kinds={"file"},
        partitions_def=bundles,
        backfill_policy=dg.BackfillPolicy.multi_run(),
        pool="fleet_bundles",
        code_version=own_version(),
    )
    def fleet_bundle(context: dg.AssetExecutionContext, project: Project) -> dg.MaterializeResult:
        from codequarry.pipelines.fleet.bundle_builds import BuildMode
        from codequarry.pipelines.fleet.planned_bundles import build_planned_bundle

        started = time.perf_counter()
        with project.explained(context.retry_number) as settings:
            mode = BuildMode(delta=settings.automation.deltas)
            built = build_planned_bundle(settings, context.partition_key, logged(context), mode=mode)
        for warning in (*built.warnings, *(f"{name}: {each.error}" for name, each in built.failed.items())):
            context.log.warning(warning)
        if built.entry is None or built.error:
            reasons = built.error or "; ".join(each.error for each in built.failed.values())
            raise dg.Failure(f"{built.name} could not be built: {reasons}", allow_retries=False)
        return dg.MaterializeResult(
            metadata={**_bundle_metadata(built), "seconds": round(time.perf_counter() - started, 3)},
            data_version=dg.DataVersion(built.entry.digest),
        )


def _bundle_metadata(built: "BuiltBundle") -> dict[str, Any]:
    entry = built.entry
    assert entry is not None
    rows = [
        {"repository": name, "commit": each.commit[:12] or "none", "chunks": each.chunks, "indexed": each.indexed}
        for name, each in entry.repositories.items()
    ]
    return {
        "outcome": built.outcome,
        "version": entry.version,
        "chunks": entry.chunks,
        "bytes": entry.size_bytes,
        "sent_bytes": built.pushed.sent_bytes if built.pushed is not None else 0,
        "is_delta": entry.base is not None,
        "repositories": markdown_table(rows, ("repository", "commit", "chunks", "indexed")),
    }


@dg.asset(
    name=FLEET_GENERATION,
    description=described("fleet.fleet_build.build_fleet"),
    group_name="fleet",
    owners=OWNERS,
    kinds={"file"},
    deps=[dg.AssetDep(FLEET_BUNDLE, partition_mapping=dg.AllPartitionMapping())],
    pool=FLEET_GENERATION,
    code_version=own_version(),
    check_specs=[
        dg.AssetCheckSpec(
            EVERY_CHECK,
            asset=FLEET_GENERATION,
            description="Each repository of the settings is in the generation as it is now. One that could not be read "
            "or built goes on as it was, or is left out if it is new: a warning.",
        )
    ],
)
def fleet_generation(
    context: dg.AssetExecutionContext, project: Project
) -> Generator[dg.MaterializeResult | dg.AssetCheckResult, None, None]:
    from codequarry.pipelines.fleet.bundle_builds import BuildMode
    from codequarry.pipelines.fleet.fleet_build import build_fleet

    started = time.perf_counter()
    with project.explained(context.retry_number) as settings:
        mode = BuildMode(delta=settings.automation.deltas)
        done = build_fleet(settings, logged(context), context.log.info, mode=mode)
    for warning in done.warnings:
        context.log.warning(warning)
    metadata = {**_generation_metadata(done), "seconds": round(time.perf_counter() - started, 3)}
    yield dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(str(done.manifest.generation)))
    failures = [f"{name}: {each.error}, since {each.since}" for name, each in sorted(done.failures.items())]
    yield _result(failures)


def _generation_metadata(done: "FleetBuild") -> dict[str, Any]:
    rows = [
        {"bundle": name, "version": entry.version, "chunks": entry.chunks, "repositories": len(entry.repositories)}
        for name, entry in done.manifest.bundles.items()
    ]
    return {
        "generation": done.manifest.generation,
        "unchanged": done.unchanged,
        "bundles": len(rows),
        "repositories": sum(len(entry.repositories) for entry in done.manifest.bundles.values()),
        "chunks": sum(entry.chunks for entry in done.manifest.bundles.values()),
        "sent_bytes": done.sent_bytes,
        "removed_generations": list(done.removed),
        "table": markdown_table(rows, ("bundle", "version", "chunks", "repositories")),
    }


def _result(failures: Iterable[str]) -> dg.AssetCheckResult:
    found = list(failures)
    return dg.AssetCheckResult(
        passed=not found,
        check_name=EVERY_CHECK,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(found) or "every repository is in it as it is now",
        metadata={"found": len(found), "allowed": 0},
    )


bundle_job = dg.define_asset_job(
    "FLEET_BUNDLE",
    selection=dg.AssetSelection.assets(FLEET_BUNDLE),
    description="Builds the bundle of each chosen partition, in a run of its own, and puts it into the store.",
    tags={"dagster/retry_strategy": "ALL_STEPS"},
)
generation_job = dg.define_asset_job(
    "FLEET",
    selection=dg.AssetSelection.assets(FLEET_GENERATION) | dg.AssetSelection.checks_for_assets(fleet_generation),
    description="Makes the generation current that names the bundles as they were built. Those whose repositories "
    "moved since are built by this run itself.",
    tags={"dagster/retry_strategy": "ALL_STEPS"},
)
