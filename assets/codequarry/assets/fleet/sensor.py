"""The sensor of a fleet: a run for each bundle whose repositories moved, and then one that makes the generation."""

import json
import time
from collections.abc import Mapping
from typing import Any

import dagster as dg

from codequarry.assets.fleet.bundles import BUNDLES, FLEET_BUNDLE, FLEET_GENERATION, bundle_job, generation_job
from codequarry.assets.project import Project
from codequarry.pipelines.store.workspace import exclusive, working
from codequarry.schemas.errors import BusyError
from codequarry.schemas.settings.automation import AutomationSettings
from codequarry.schemas.settings.load import Settings

WHY_TAG = "codequarry/because"
"""Tag of a run: why its bundle is built."""
_TAG_CHARS = 200
_FIRST_WAIT_S, _LONGEST_WAIT_S = 60.0, 3600.0
_POLLED = "dagster-polled.json"
WHOLE = ""
"""Stands among the names of bundles for the generation that names them."""
_RUNNING = [
    dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING,
]  # fmt: skip

Waits = dict[str, tuple[str, int, float]]
"""By bundle: the reason of the last run, how often it was the reason, and the time from which on it counts again."""


def fleet_sensor(automation: AutomationSettings) -> dg.SensorDefinition:
    """Return the sensor; the settings give its interval and whether it starts by itself."""

    @dg.sensor(
        name="fleet_heads",
        jobs=[bundle_job, generation_job],
        description="Asks the repositories of the fleet for their heads, a hundred at a time, and starts a run of "
        "FLEET_BUNDLE for each bundle that has to be built. When none of them runs any more, it starts FLEET. What "
        "stays a reason, such as a repository that does not answer, counts again after 1, 2, 4, … 60 minutes.",
        minimum_interval_seconds=automation.watch_interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING if automation.watch_heads else dg.DefaultSensorStatus.STOPPED,
    )
    def watch_fleet(context: dg.SensorEvaluationContext, project: dg.ResourceParam[Project]) -> dg.SensorResult:
        instance, cursor = context.instance, context.cursor
        if running := _unfinished(instance):
            return dg.SensorResult(skip_reason=f"{running} runs of the fleet are not finished", cursor=cursor)
        if _last_use(instance, bundle_job.name, FLEET_BUNDLE) > _last_use(
            instance, generation_job.name, FLEET_GENERATION
        ):
            request = dg.RunRequest(job_name=generation_job.name, tags={WHY_TAG: "bundles were built"})
            return dg.SensorResult([request], cursor=cursor)
        reasons = _reasons(context, project.settings())
        due, waits = bundles_due(reasons, json.loads(cursor) if cursor else {}, time.time())
        requests = [
            dg.RunRequest(job_name=bundle_job.name, partition_key=name, tags={WHY_TAG: why[:_TAG_CHARS]})
            for name, why in due.items()
            if name != WHOLE
        ]
        if not requests and WHOLE in due:
            requests = [dg.RunRequest(job_name=generation_job.name, tags={WHY_TAG: due[WHOLE]})]
        if not requests:
            said = f"{len(reasons)} bundles, {sum(map(bool, reasons.values()))} of them wait for another try"
            return dg.SensorResult(skip_reason=said, cursor=json.dumps(waits))
        return dg.SensorResult(requests, cursor=json.dumps(waits))

    return watch_fleet


def bundles_due(reasons: Mapping[str, str], waits: Mapping[str, Any], now: float) -> tuple[dict[str, str], Waits]:
    """Choose the bundles to build now.

    Args:
        reasons: Why each bundle has to be looked at, by name; "" for no reason.
        waits: Memory of the tick before, see `Waits`.
        now: Seconds since the epoch.

    Returns:
        Reasons of those to build, and the memory for the next tick.
    """
    due: dict[str, str] = {}
    after: Waits = {name: (held[0], held[1], held[2]) for name, held in waits.items() if name in reasons}
    for name, why in reasons.items():
        before, count, until = after.get(name, ("", 0, 0.0))
        if not why or (why == before and now < until):
            continue
        count = count + 1 if why == before and now < until + _LONGEST_WAIT_S else 1
        due[name] = why
        after[name] = (why, count, now + min(_FIRST_WAIT_S * 2 ** (count - 1), _LONGEST_WAIT_S))
    return due, after


def _reasons(context: dg.SensorEvaluationContext, settings: Settings) -> Mapping[str, str]:
    """Plan the fleet, make the partitions its bundles, and return the reason to build each, and the generation.

    Without a generation nothing is planned here: every repository would be fetched and measured, for which the call
    of a sensor has no time.
    """
    from codequarry.pipelines.fleet.fleet_store import FleetStore
    from codequarry.pipelines.fleet.planned_bundles import plan_bundles
    from codequarry.pipelines.fleet.pushes.polled_pages import PolledPages
    from codequarry.pipelines.sources.sources import repositories_to_index

    if FleetStore.open(settings, create=True).read_current() is None:
        return {WHOLE: "there is no generation"}
    pages = PolledPages(settings.fleet.folder / _POLLED)
    page = pages.next_page([*repositories_to_index(settings)])
    parent, planned = plan_bundles(settings, asked=page)
    pages.move_on(page)
    for name, failed in planned.left_out.items():
        context.log.warning(f"{name}: {failed.error}")
    known, wanted = set(context.instance.get_dynamic_partitions(BUNDLES)), list(planned.reasons)
    if missing := [name for name in wanted if name not in known]:
        context.instance.add_dynamic_partitions(BUNDLES, missing)
    for name in known - {*wanted}:
        context.instance.delete_dynamic_partition(BUNDLES, name)
    gone = parent is not None and not parent.bundles.keys() <= {*wanted}
    return {**planned.reasons, WHOLE: "bundles are gone" if gone else ""}


def is_of_fleet(run: dg.DagsterRun) -> bool:
    """Return whether a run makes assets of the fleet: of one of its jobs, or of a backfill."""
    keys = {dg.AssetKey(FLEET_BUNDLE), dg.AssetKey(FLEET_GENERATION)}
    return run.job_name in (bundle_job.name, generation_job.name) or bool(keys & (run.asset_selection or frozenset()))


def is_worked_on(run: dg.DagsterRun, settings: Settings) -> bool:
    """Return whether some process builds what a run of the fleet is to build."""
    from codequarry.pipelines.fleet.bundle_builds import settings_of_bundle
    from codequarry.pipelines.fleet.fleet_build import make_fleet_folder

    bundle = run.tags.get("dagster/partition", "")
    try:
        if bundle:
            with working(settings_of_bundle(settings, bundle, ())):
                return False
        with exclusive(make_fleet_folder(settings) / ".lock", "building the fleet"):
            return False
    except BusyError:
        return True


def _unfinished(instance: dg.DagsterInstance) -> int:
    return sum(map(is_of_fleet, instance.get_runs(dg.RunsFilter(statuses=_RUNNING))))


def _last_use(instance: dg.DagsterInstance, job: str, asset: str) -> float:
    """Return when a job was last started, or its asset made in another way, in seconds since the epoch."""
    runs = instance.get_run_records(dg.RunsFilter(job_name=job), limit=1)
    event = instance.get_latest_materialization_event(dg.AssetKey(asset))
    started = runs[0].create_timestamp.timestamp() if runs else 0.0
    return max(started, event.timestamp if event is not None else 0.0)
