"""The definitions that Dagster loads."""

import dagster as dg

from codequarry.assets.automation import (
    dead_run_sensor,
    failed_runs,
    head_sensor,
    reindex,
    reindex_schedule,
    repository_partitions,
    schedule_of,
)
from codequarry.assets.bundle import late_interaction_gain, published_bundle, retention, staged_bundle, verified_bundle
from codequarry.assets.checks import current_is_fresh, freshness, suite_checks
from codequarry.assets.project import Project
from codequarry.assets.repositories import (
    fitted_encoder,
    repository_embeddings,
    repository_modules,
    repository_pass,
    repository_scip,
    repository_snapshot,
)

REPOSITORY_ASSETS = [repository_snapshot, repository_pass, repository_modules, repository_scip, repository_embeddings]
BUNDLE_ASSETS = [fitted_encoder, staged_bundle, verified_bundle, published_bundle]


def build_definitions(project: Project) -> dg.Definitions:
    """Return every definition of a project.

    Args:
        project: Settings that the definitions follow.

    Returns:
        Assets, checks, jobs, schedules, sensors and resources.

    Raises:
        SettingsError: The settings are missing or not valid.
    """
    assets = [*REPOSITORY_ASSETS, *BUNDLE_ASSETS, late_interaction_gain]
    settings = project.settings()
    zone, when = settings.schedule.timezone, settings.automation
    return dg.Definitions(
        assets=assets,
        asset_checks=[*suite_checks, current_is_fresh],
        jobs=[reindex, retention, freshness],
        schedules=[
            reindex_schedule(settings.schedule),
            schedule_of(retention, "retention_schedule", when.retention_cron, zone, enabled=when.retention),
            schedule_of(freshness, "freshness_schedule", when.freshness_cron, zone, enabled=when.freshness),
        ],
        sensors=[
            repository_partitions,
            head_sensor(when),
            failed_runs,
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
