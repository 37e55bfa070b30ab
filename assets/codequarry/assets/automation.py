"""The job that indexes every repository and publishes, the schedules, and the sensors.

Sensors keep the partitions equal to the settings, watch heads of branches, and look for failed and dead runs.
"""

import json
import time
from collections.abc import Set
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from codequarry.assets.checks import current_is_fresh, freshness
from codequarry.assets.delta_bundle import DELTA_BUNDLE, delta
from codequarry.assets.fleet.sensor import is_of_fleet, is_worked_on
from codequarry.assets.instance.notifications import Notice
from codequarry.assets.mcp_service import served_is_published
from codequarry.assets.project import PARTITIONS, RANGE_TAGS, Project, partition_change, repositories, sync_partitions
from codequarry.assets.upkeep import retention
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.workspace import repository_work, working
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.errors import BusyError, UnavailableError
from codequarry.schemas.settings.automation import AutomationSettings, ScheduleSettings
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.integrity import current_manifest

CHANGED_TAG = "codequarry/changed"
"""Tag of a run: the repositories whose head changed."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 60.0, 3600.0
QUIET_S = 300.0
"""Longest time, in seconds, that a living run goes without a log entry outside of its steps, the wait for a retry
included."""

_ON_REQUEST = (
    dg.AssetSelection.groups("analysis", "serving")
    - dg.AssetSelection.assets("coverage_report")
    - dg.AssetSelection.key_substring("notebook_page")  # which is missing where the settings name none
)
_BESIDE = dg.AssetSelection.key_substring(DELTA_BUNDLE) | dg.AssetSelection.key_substring("fleet_")
"""Assets that the job leaves out, with their checks; they are missing where the settings ask for none of them."""
reindex = dg.define_asset_job(
    # Dagster's pages ask for the first job, by name, that has all chosen assets. In capitals it sorts before Dagster's
    # own `__ASSET_JOB`, which makes two runs of assets with and without partitions.
    "REINDEX",
    # A version just published is fresh; and a run that fails before must not show that check as failed too.
    # Late interaction is measured only on request.
    selection=dg.AssetSelection.all()
    - dg.AssetSelection.checks(current_is_fresh, served_is_published)
    - _ON_REQUEST
    - _BESIDE,
    description="Reads every repository, builds one version of the bundle, verifies and publishes it. "
    "By hand: Materialize all on the page of this job or of Lineage, with all partitions; that is one run.",
    # From the first step on: until the retry another run may have used the work folder, and what a killed publish had
    # renamed is not there to be published.
    tags={"dagster/retry_strategy": "ALL_STEPS"},
)

reindex_and_measure = dg.define_asset_job(
    # The second by name, so that Lineage finds it where REINDEX has not all of its assets.
    "REINDEX_AND_MEASURE",
    selection=reindex.selection | dg.AssetSelection.assets("late_interaction_gain"),
    description="What REINDEX does, and a measurement of what late interaction brings, which later versions follow. "
    "It exists where late interaction is on; Materialize all on Lineage starts it.",
    tags=dict(reindex.tags or {}),
)


def reindex_schedule(schedule: ScheduleSettings) -> dg.ScheduleDefinition:
    """Return the schedule of the settings: one run of ``REINDEX`` over all repositories that they name at that time."""

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
    return dict(zip(RANGE_TAGS, (keys[0], keys[-1]), strict=True))


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


@dg.sensor(
    description="Keeps the partitions equal to the repositories of the settings: adds new ones, deletes removed ones.",
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def repository_partitions(
    context: dg.SensorEvaluationContext, project: dg.ResourceParam[Project]
) -> dg.SensorResult | dg.SkipReason:
    change = partition_change(context.instance.get_dynamic_partitions(PARTITIONS), project.settings())
    requests: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest] = []
    if change.missing:
        requests.append(repositories.build_add_request(list(change.missing)))
    if change.obsolete:
        requests.append(repositories.build_delete_request(list(change.obsolete)))
    if not requests:
        return dg.SkipReason("the partitions are the repositories of the settings")
    return dg.SensorResult(dynamic_partitions_requests=requests)


@dataclass(frozen=True)
class Watch:
    """Cursor of the sensor: what it remembers from tick to tick."""

    requested: dict[str, str] = field(default_factory=dict)
    """The last head of each repository for which a run was requested."""
    failing: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Repositories that did not answer: the number of failures in a row, and the time of the next try."""

    @classmethod
    def parse(cls, cursor: str | None) -> "Watch":
        """Read a cursor; an empty one when there is none."""
        held: dict[str, Any] = json.loads(cursor) if cursor else {}
        failing = {name: (count, until) for name, (count, until) in held.pop("failing", {}).items()}
        return cls(**held, failing=failing)

    def cursor(self) -> str:
        """Return the text that Dagster keeps."""
        return json.dumps(asdict(self), sort_keys=True)

    def waiting(self, name: str, now: float) -> bool:
        """Return whether it is too early to ask a repository again."""
        return self.failing.get(name, (0, 0.0))[1] > now


def heads_to_index(
    settings: Settings, watch: Watch, now: float, folder: Path
) -> tuple[dict[str, str], Watch, dict[str, str]]:
    """Find the heads of branches that are to be indexed.

    Args:
        settings: Repositories to ask, and the bundle that CURRENT belongs to.
        watch: Memory of the tick before.
        now: Seconds since the epoch.
        folder: Any folder that exists.

    Returns:
        Heads to index by repository, the memory for the next tick, and problems by repository.
    """
    from codequarry.pipelines.sources.sources import read_heads

    known = repositories_by_name(settings.sources.repositories)
    heads = read_heads([each for name, each in known.items() if not watch.waiting(name, now)], folder)
    served = _served(settings)
    changed = {
        name: commit
        for name, commit in heads.commits.items()
        if commit and commit != served.get(name) and commit != watch.requested.get(name)
    }
    failing = {name: held for name, held in watch.failing.items() if watch.waiting(name, now) and name in known}
    for name in heads.problems:
        count = watch.failing.get(name, (0, 0.0))[0] + 1
        failing[name] = (count, now + min(_FIRST_WAIT_S * 2 ** (count - 1), _LONGEST_WAIT_S))
    requested = {name: head for name, head in watch.requested.items() if name in known} | changed
    return changed, Watch(requested, failing), heads.problems


def others_are_stale(settings: Settings) -> bool:
    """Return whether the work folder's outputs for unchanged repositories cannot be staged: then all have to be read.

    It compares the settings and tools with those that CURRENT names, and looks for removed outputs.
    """
    from codequarry.pipelines.bundle.manifest import tools_in_use

    try:
        manifest = current_manifest(BundleRoot(settings.bundle.root))
    except UnavailableError:
        return True
    made = (settings.index_hash(), tools_in_use(settings))
    works = (repository_work(settings.paths.work, name) for name in repositories_by_name(settings.sources.repositories))
    return (
        manifest is None
        or (manifest.settings_sha256, manifest.tools) != made
        # The work folder is that of the base: what a delta version holds since is not in it.
        or manifest.stack is not None
        or any(not (work.snapshot.is_file() and work.contents.is_file()) for work in works)
    )


def _served(settings: Settings) -> dict[str, str]:
    """Return the commits of CURRENT by repository; none when nothing whole is published."""
    try:
        manifest = current_manifest(BundleRoot(settings.bundle.root))
    except UnavailableError:
        return {}
    return {source.name: source.commit for source in manifest.sources} if manifest is not None else {}


def head_sensor(automation: AutomationSettings, *, has_fleet: bool) -> dg.SensorDefinition:
    """Return the sensor; the settings give its interval and whether it starts by itself.

    Args:
        automation: The settings.
        has_fleet: The repositories are those of a fleet, which has a sensor of its own.

    Returns:
        The sensor.
    """
    starts = automation.watch_heads and not has_fleet

    @dg.sensor(
        name="git_heads",
        jobs=[reindex, *([delta] if automation.deltas else [])],
        description="Asks git for the head of each repository, and starts one run for those whose head CURRENT does "
        "not hold. A repository that does not answer is named, and asked again after 1, 2, 4, … 60 minutes. Folders "
        "without git have no head: the schedule reads them.",
        minimum_interval_seconds=automation.watch_interval_s,
        default_status=dg.DefaultSensorStatus.RUNNING if starts else dg.DefaultSensorStatus.STOPPED,
    )
    def watch_heads(context: dg.SensorEvaluationContext, project: dg.ResourceParam[Project]) -> dg.SensorResult:
        settings, now = project.settings(), time.time()
        before = Watch.parse(context.cursor)
        changed, after, problems = heads_to_index(settings, before, now, Path(project.settings_file).parent)
        for name, problem in problems.items():
            context.log.warning(f"{name}: {problem}")
        if not changed:
            return dg.SensorResult(skip_reason=_why_not(settings, after, problems, now), cursor=after.cursor())
        keys = sync_partitions(context.instance, settings)
        changes = {CHANGED_TAG: ", ".join(sorted(changed))}
        if automation.deltas:
            return dg.SensorResult([dg.RunRequest(job_name=delta.name, tags=changes)], cursor=after.cursor())
        # Ranges are of neighbours: repositories between two changed ones are read too, and found unchanged.
        places = range(len(keys)) if others_are_stale(settings) else sorted(keys.index(name) for name in changed)
        tags = whole(keys[places[0] : places[-1] + 1]) | changes
        # Without a run key: for the same head there is a second run after a forced push there and back.
        return dg.SensorResult(run_requests=[dg.RunRequest(job_name=reindex.name, tags=tags)], cursor=after.cursor())

    return watch_heads


def _why_not(settings: Settings, watch: Watch, problems: dict[str, str], now: float) -> str:
    said = [f"{len(settings.sources.repositories) - len(watch.failing)} repositories, no new head"]
    for name, (count, until) in sorted(watch.failing.items()):
        why = f": {problems[name]}" if name in problems else ""
        said.append(f"{name} did not answer {count} times, asked again in {max(until - now, 0) / 60:.0f} min{why}")
    return "; ".join(said)


_FORMER_NAME = "reindex"
"""Name of the job up to 0.1.0: a run that died before an upgrade holds the work folder's place after it."""
_JOBS = frozenset({reindex.name, reindex_and_measure.name, _FORMER_NAME, delta.name, retention.name, freshness.name})


def dead_runs(instance: dg.DagsterInstance, settings: Settings, assets: Set[dg.AssetKey]) -> list[dg.DagsterRun]:
    """Return codequarry's runs that claim to be running, write no log and hold no work folder.

    A living step of any length holds the work folder: of the project, of a bundle of a fleet, or of the fleet.
    """
    started = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    quiet = [run for run in started if _silence_s(instance, run) > QUIET_S]
    of_fleet = [run for run in quiet if is_of_fleet(run)]
    return [
        *(run for run in quiet if run not in of_fleet and _is_ours(run, assets) and not _is_worked_on(settings)),
        *(run for run in of_fleet if not is_worked_on(run, settings)),
    ]


def _is_worked_on(settings: Settings) -> bool:
    """Return whether some process holds the work folder."""
    try:
        with working(settings):
            return False
    except BusyError:
        return True


def _is_ours(run: dg.DagsterRun, assets: Set[dg.AssetKey]) -> bool:
    return run.job_name in _JOBS or bool(run.asset_selection and run.asset_selection <= assets)


def _silence_s(instance: dg.DagsterInstance, run: dg.DagsterRun) -> float:
    return time.time() - max((entry.timestamp for entry in instance.all_logs(run.run_id)), default=0.0)


def dead_run_sensor(assets: Set[dg.AssetKey]) -> dg.SensorDefinition:
    """Return the sensor that reports dead runs as failed.

    Dagster's code server notices the death of runs that it started. A run that dies together with it, as when the
    machine loses power, stays "started" and keeps its place in the pool, and no run would ever start again.
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


def notice_of(context: dg.RunFailureSensorContext, settings: Settings) -> Notice:
    """Return the notice of a failed run."""
    run = context.dagster_run
    failed = list(context.get_step_failure_events())
    step = failed[0].step_key or "" if failed else ""
    reasons = [*_failed_checks(context), *map(_reason, failed)] or [
        context.failure_event.message or "no reason was given"
    ]
    try:
        current = BundleRoot(settings.bundle.root).read_current().version
    except UnavailableError:
        current = ""
    url = settings.notify.dagster_url.rstrip("/")
    page = f"{url}/runs/{run.run_id}" if url else ""
    return Notice(run.job_name, run.run_id, step, "\n".join(reasons), current, page)


def _failed_checks(context: dg.RunFailureSensorContext) -> list[str]:
    """Return the descriptions of the failed checks of a run; the error of their step only counts them."""
    kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
    entries = context.instance.all_logs(context.dagster_run.run_id, of_type=kind)
    found = [entry.dagster_event.asset_check_evaluation_data for entry in entries if entry.dagster_event is not None]
    return [
        f"{each.asset_key.to_user_string()}: {each.check_name}: {each.description or 'failed'}"
        for each in found
        if not each.passed and each.severity == dg.AssetCheckSeverity.ERROR
    ]


def _reason(event: dg.DagsterEvent) -> str:
    """Return the message of a step's error, and its remedy when it has one."""
    data = event.step_failure_data
    error = data.error
    said = "" if error is None else (error.cause.message if error.cause is not None else error.message)
    held = data.user_failure_data
    if held is None:
        return said.strip()
    remedy = held.metadata.get("suggestion")
    return "; ".join(part for part in (held.description or said.strip(), str(remedy.value) if remedy else "") if part)


@dg.run_failure_sensor(
    name="failed_runs",
    description="Tells of failed runs by the webhook and the e-mail of [notify] of the settings; of none without them.",
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def failed_runs(context: dg.RunFailureSensorContext, project: dg.ResourceParam[Project]) -> dg.SkipReason:
    from codequarry.assets.instance.notifications import deliver

    settings = project.settings()
    if not settings.notify.has_recipients:
        return dg.SkipReason("[notify] of the settings names nobody to tell")
    told = deliver(notice_of(context, settings), settings.notify)
    return dg.SkipReason(f"told {' and '.join(told)}")
