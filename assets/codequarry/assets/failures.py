"""The sensor that tells people of failed runs, by webhook and e-mail."""

import dagster as dg

from codequarry.assets.project import Project
from codequarry.pipelines.notifications import Notice
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.layout import BundleRoot
from codequarry.schemas.settings import Settings


def notice_of(context: dg.RunFailureSensorContext, settings: Settings) -> Notice:
    """What there is to say of a failed run."""
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
    """What each check of the run that did not pass says; the error of its step only counts them."""
    kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
    entries = context.instance.all_logs(context.dagster_run.run_id, of_type=kind)
    found = [entry.dagster_event.asset_check_evaluation_data for entry in entries if entry.dagster_event is not None]
    return [
        f"{each.asset_key.to_user_string()}: {each.check_name}: {each.description or 'failed'}"
        for each in found
        if not each.passed
    ]


def _reason(event: dg.DagsterEvent) -> str:
    """The message of a step's error, and the remedy where the error has one."""
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
    from codequarry.pipelines.notifications import deliver

    settings = project.settings()
    if not settings.notify.wanted:
        return dg.SkipReason("[notify] of the settings names nobody to tell")
    told = deliver(notice_of(context, settings), settings.notify)
    return dg.SkipReason(f"told {' and '.join(told)}")
