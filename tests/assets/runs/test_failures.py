"""People hear of failed runs, with the reason and what is served still."""

import re
import time

import dagster as dg

from codequarry.assets import checks as freshness
from codequarry.assets.automation import failed_runs, notice_of
from codequarry.assets.definitions import build_definitions
from tests.pipelines.publish.mail_server import Hook, serving


def failed_run(workbench):
    """A run that failed, and the context in which the sensor sees it."""
    workbench.configure("beta", "alpha", more="[checks]\nmin_chunks = 1000\n")
    result = workbench.reindex()
    assert not result.success
    return dg.build_run_status_sensor_context(
        sensor_name="failed_runs",
        dagster_event=result.get_run_failure_event(),
        dagster_instance=workbench.instance,
        dagster_run=result.dagster_run,
        resources={"project": workbench.project},
    ).for_run_failure()


def test_a_notice_names_step_reason_remedy_and_what_is_served(published):
    published.write("alpha/added.py", "def added() -> None:\n    return None\n")
    context = failed_run(published)
    settings = published.project.settings()
    settings = settings.model_copy(
        update={"notify": settings.notify.model_copy(update={"dagster_url": "http://ui.example/"})}
    )
    notice = notice_of(context, settings)
    assert (notice.job, notice.step) == ("REINDEX", "index_version")
    assert "expected at least 1000" in notice.reason
    assert "CURRENT is unchanged" in notice.reason
    assert notice.current == published.manifest.version
    assert notice.url == f"http://ui.example/runs/{context.dagster_run.run_id}"


def test_the_sensor_posts_it_and_without_anybody_to_tell_it_rests(published):
    published.write("alpha/added.py", "def added() -> None:\n    return None\n")
    context = failed_run(published)
    assert "names nobody to tell" in failed_runs(context).skip_message
    hook = Hook()
    with serving(hook):
        published.configure("beta", "alpha", more=f'[notify]\nwebhook = "{hook.url}"\n')
        assert failed_runs(context).skip_message == "told the webhook"
    assert hook.posted[0]["step"] == "index_version"


def test_a_check_that_stopped_the_run_says_what_it_found(published, monkeypatch):
    now = time.time()
    monkeypatch.setattr(freshness.time, "time", lambda: now + 1000 * 3600)
    job = build_definitions(published.project).resolve_job_def("freshness")
    result = job.execute_in_process(instance=published.instance, raise_on_error=False)
    context = dg.build_run_status_sensor_context(
        "failed_runs", result.get_run_failure_event(), published.instance, result.dagster_run
    ).for_run_failure()
    notice = notice_of(context, published.project.settings())
    assert re.match(r"published_bundle: current_is_fresh: CURRENT was confirmed 100\d\.\d hours ago", notice.reason)
    assert "expected at most 48; see why no run of `REINDEX` succeeded" in notice.reason


def test_a_run_that_failed_outside_of_its_steps_has_its_message(workbench):
    with dg.DagsterInstance.ephemeral() as instance:

        @dg.job
        def empty():
            pass

        result = empty.execute_in_process(instance=instance)
        run = instance.get_run_by_id(result.run_id)
        event = instance.report_run_failed(run, "The run's process is gone")
        context = dg.build_run_status_sensor_context("failed_runs", event, instance, run).for_run_failure()
        notice = notice_of(context, workbench.project.settings())
    assert (notice.step, notice.reason, notice.current) == ("", "The run's process is gone", "")
