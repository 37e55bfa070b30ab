"""Runs whose process died without a word are reported as failed, so that they are retried and let later runs start."""

import time
from collections.abc import Set

import dagster as dg

from codequarry.assets.automation import reindex
from codequarry.assets.freshness import freshness
from codequarry.assets.project import Project
from codequarry.assets.retention import retention
from codequarry.pipelines.workspace import working
from codequarry.schemas.errors import BusyError
from codequarry.schemas.settings import Settings

_JOBS = frozenset({reindex.name, retention.name, freshness.name})
QUIET_S = 300.0
"""Longer than a living run ever goes without a log entry outside of its steps, the wait for a retry included."""


def dead_runs(instance: dg.DagsterInstance, settings: Settings, assets: Set[dg.AssetKey]) -> list[dg.DagsterRun]:
    """Our runs that say they are going on, write no log, and hold no work folder, as steps of any length do."""
    started = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    quiet = [run for run in started if _is_ours(run, assets) and _silence_s(instance, run) > QUIET_S]
    if not quiet:
        return []
    try:
        with working(settings):
            return quiet
    except BusyError:
        return []


def _is_ours(run: dg.DagsterRun, assets: Set[dg.AssetKey]) -> bool:
    return run.job_name in _JOBS or bool(run.asset_selection and run.asset_selection <= assets)


def _silence_s(instance: dg.DagsterInstance, run: dg.DagsterRun) -> float:
    return time.time() - max((entry.timestamp for entry in instance.all_logs(run.run_id)), default=0.0)


def dead_run_sensor(assets: Set[dg.AssetKey]) -> dg.SensorDefinition:
    """The sensor that reports them.

    Dagster's code server sees the runs die that it started. One that dies together with it, as when the machine loses
    power, stays "started" and keeps its place in the pool, and no run would ever start again.
    """

    @dg.sensor(
        name="dead_runs",
        description="Reports runs whose process is gone as failed, so that they are retried and no run waits for them.",
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def report(context: dg.SensorEvaluationContext, project: dg.ResourceParam[Project]) -> dg.SkipReason:
        found = dead_runs(context.instance, project.settings(), assets)
        for run in found:
            context.instance.report_run_failed(run, "The run's process is gone: it was killed, or the machine stopped.")
        return dg.SkipReason(f"runs reported as failed: {len(found)}")

    return report
