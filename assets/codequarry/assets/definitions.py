"""The definitions that Dagster loads."""

import dagster as dg

from codequarry.assets.analysis import coverage_report, measured_late_interaction, rendered_notebook
from codequarry.assets.automation import (
    dead_run_sensor,
    failed_runs,
    head_sensor,
    reindex,
    reindex_and_measure,
    reindex_schedule,
    repository_partitions,
    schedule_of,
)
from codequarry.assets.bundle import index_version
from codequarry.assets.checks import current_is_fresh, freshness, statistics_checks, suite_checks
from codequarry.assets.delta_bundle import complete_version_wanted, delta, delta_bundle
from codequarry.assets.fleet.bundles import bundle_job, fleet_bundle, fleet_generation, generation_job
from codequarry.assets.fleet.sensor import fleet_sensor
from codequarry.assets.mcp_service import mcp_service, served_is_published, served_version
from codequarry.assets.project import Project
from codequarry.assets.repositories import (
    embedding_assets,
    repository_modules,
    repository_pass,
    repository_scip,
    repository_snapshot,
)
from codequarry.assets.upkeep import retention
from codequarry.schemas.settings.load import Settings


def project_assets(settings: Settings) -> list[dg.AssetsDefinition]:
    """Return the assets that runs make, in the order of the data; what the settings turn off does not exist."""
    return [
        repository_snapshot,
        repository_pass,
        repository_modules,
        repository_scip,
        *embedding_assets(settings),
        index_version(settings),
        *([delta_bundle] if settings.automation.deltas else []),
        coverage_report,
        *([measured_late_interaction()] if settings.late_interaction else []),
        *([rendered_notebook()] if settings.automation.notebook else []),
    ]


def build_definitions(project: Project) -> dg.Definitions:
    """Return every definition of a project.

    Args:
        project: Settings that the definitions follow.

    Returns:
        Assets, checks, jobs, schedules, sensors and resources.

    Raises:
        SettingsError: The settings are missing or not valid.
    """
    settings = project.settings()
    assets = project_assets(settings)
    zone, when, has_fleet = settings.schedule.timezone, settings.automation, bool(settings.fleet.url)
    return dg.Definitions(
        assets=[*assets, mcp_service, *([fleet_bundle, fleet_generation] if has_fleet else [])],
        asset_checks=[*suite_checks, *statistics_checks, current_is_fresh, served_is_published],
        jobs=[
            reindex,
            retention,
            freshness,
            *([reindex_and_measure] if settings.late_interaction else []),
            *([delta] if when.deltas else []),
            *([bundle_job, generation_job] if has_fleet else []),
        ],
        schedules=[
            reindex_schedule(settings.schedule),
            schedule_of(retention, "retention_schedule", when.retention_cron, zone, enabled=when.retention),
            schedule_of(freshness, "freshness_schedule", when.freshness_cron, zone, enabled=when.freshness),
        ],
        sensors=[
            repository_partitions,
            head_sensor(when, has_fleet=has_fleet),
            failed_runs,
            served_version,
            *([complete_version_wanted(reindex)] if when.deltas else []),
            *([fleet_sensor(when)] if has_fleet else []),
            dead_run_sensor({key for asset in assets for key in asset.keys}),
        ],
        resources={"project": project},
        # The steps follow each other, so one process loses nothing and loads the libraries once.
        executor=dg.in_process_executor,
    )


@dg.definitions
def definitions() -> dg.Definitions:
    """Return the definitions of the project in the current folder, see ``Project.from_environment``."""
    return build_definitions(Project.from_environment())
