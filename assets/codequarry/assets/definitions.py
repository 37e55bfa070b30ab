"""What Dagster loads."""

import dagster as dg

from codequarry.assets.adaptation import fitted_encoder
from codequarry.assets.automation import reindex, reindex_schedule, schedule_of
from codequarry.assets.bundle import published_bundle, staged_bundle, verified_bundle
from codequarry.assets.chunks import repository_pass
from codequarry.assets.dead_runs import dead_run_sensor
from codequarry.assets.embeddings import repository_embeddings
from codequarry.assets.failures import failed_runs
from codequarry.assets.freshness import current_is_fresh, freshness
from codequarry.assets.heads import head_sensor
from codequarry.assets.modules import repository_modules
from codequarry.assets.partitions import repository_partitions
from codequarry.assets.project import Project
from codequarry.assets.retention import retention
from codequarry.assets.scip import repository_scip
from codequarry.assets.sources import repository_snapshot

REPOSITORY_ASSETS = [repository_snapshot, repository_pass, repository_modules, repository_scip, repository_embeddings]
BUNDLE_ASSETS = [fitted_encoder, staged_bundle, verified_bundle, published_bundle]


def build_definitions(project: Project) -> dg.Definitions:
    """Every definition of a project. Raises SettingsError: its settings are missing or not valid."""
    assets = [*REPOSITORY_ASSETS, *BUNDLE_ASSETS]
    settings = project.settings()
    zone, when = settings.schedule.timezone, settings.automation
    return dg.Definitions(
        assets=assets,
        asset_checks=[current_is_fresh],
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
    """The definitions of the project in the current folder, see ``Project.from_environment``."""
    return build_definitions(Project.from_environment())
