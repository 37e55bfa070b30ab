"""One job that indexes every repository and publishes, and the schedule that starts it."""

from typing import Any

import dagster as dg

from codequarry.assets.checks import current_is_fresh
from codequarry.assets.partitions import sync_partitions
from codequarry.assets.project import Project
from codequarry.schemas.settings.automation import ScheduleSettings

# The names are Dagster's; a run that carries both covers every partition between them.
_FIRST, _LAST = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"

reindex = dg.define_asset_job(
    "reindex",
    # A version just published is fresh; and a run that fails before must not show that check as failed too.
    # Late interaction is measured only on request.
    selection=dg.AssetSelection.all()
    - dg.AssetSelection.checks(current_is_fresh)
    - dg.AssetSelection.assets("late_interaction_gain"),
    description="Reads every repository, builds one version of the bundle, verifies and publishes it. "
    "By hand: Materialize all, All, Launch backfill; that is one run.",
    # From the first step on: until the retry another run may have used the work folder, and what a killed publish had
    # renamed is not there to be published.
    tags={"dagster/retry_strategy": "ALL_STEPS"},
)


def reindex_schedule(schedule: ScheduleSettings) -> dg.ScheduleDefinition:
    """Return the schedule of the settings: one run of ``reindex`` over all repositories that they name at that time."""

    @dg.schedule(
        name="reindex_schedule",
        job=reindex,
        cron_schedule=schedule.cron,
        execution_timezone=schedule.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING if schedule.enabled else dg.DefaultScheduleStatus.STOPPED,
        description="Cron, time zone and whether it starts by itself come from [schedule] of the settings file.",
    )
    def request(
        context: dg.ScheduleEvaluationContext, project: dg.ResourceParam[Project]
    ) -> dg.RunRequest | dg.SkipReason:
        keys = sync_partitions(context.instance, project.settings())
        if not keys:
            return dg.SkipReason("the settings name no repository: add [[sources.repositories]]")
        return dg.RunRequest(tags=whole(keys))

    return request


def whole(keys: tuple[str, ...]) -> dict[str, str]:
    """Return the run tags with which one run covers all of these consecutive partitions."""
    return {_FIRST: keys[0], _LAST: keys[-1]}


def schedule_of(job: Any, name: str, cron: str, zone: str, *, enabled: bool) -> dg.ScheduleDefinition:
    """Return a schedule of the settings for a job without partitions, of ops or of assets."""
    return dg.ScheduleDefinition(
        name=name,
        job=job,
        cron_schedule=cron,
        execution_timezone=zone,
        default_status=dg.DefaultScheduleStatus.RUNNING if enabled else dg.DefaultScheduleStatus.STOPPED,
        description="Cron and whether it starts by itself come from [automation] of the settings file, "
        "the time zone from [schedule].",
    )
