"""Retention and the freshness of CURRENT as jobs, and retries of what the outside world refuses."""

import time

import dagster as dg
import pytest

from codequarry.assets import checks as module
from codequarry.assets.definitions import build_definitions
from codequarry.assets.repositories import READ_CHECK
from codequarry.pipelines.git import remote as git_remote
from codequarry.pipelines.sources import snapshot
from codequarry.schemas.errors import PublishError, RemoteError
from tests.assets.test_reindex import failure
from tests.pipelines.repositories import git, shim


def commit(folder):
    """A commit of all that lies in a folder."""
    if not (folder / ".git").exists():
        git(folder, "init", "--quiet", "-b", "main")
    git(folder, "add", "--all")
    own = ("-c", "user.name=T", "-c", "user.email=t@example.invalid")
    git(folder, *own, "commit", "--quiet", "--allow-empty", "-m", "more")


def run(workbench, job):
    found = build_definitions(workbench.project).resolve_job_def(job)
    return found.execute_in_process(instance=workbench.instance, raise_on_error=False)


def test_retention_removes_what_the_settings_do_not_keep_and_cleans_the_store(published):
    for count in (3, 4, 5):
        published.write("alpha/added.py", f"def added() -> int:\n    return {count}\n")
        assert published.reindex().success
    assert len(published.root.version_names()) == 3
    published.configure("beta", "alpha", more="[bundle]\nkeep_versions = 2\n")
    result = run(published, "retention")
    assert result.success
    assert len(published.root.version_names()) == 2
    assert published.manifest.version in published.root.version_names()
    written = {event.step_key: event for event in result.all_events if event.is_successful_output}
    outputs = {step: event.step_output_data.metadata for step, event in written.items()}
    assert len(outputs["prune_versions"]["removed"].value) == 1
    assert "vectors" in outputs["sweep_store"]["store"].value


def test_retention_where_nothing_is_published_does_nothing(workbench):
    assert run(workbench, "retention").success
    assert not workbench.root.path.exists()


def test_current_is_fresh_until_no_run_confirmed_it_for_long(published, monkeypatch):
    assert published.reindex().success
    assert run(published, "freshness").success
    now = time.time()
    monkeypatch.setattr(module.time, "time", lambda: now + 49 * 3600)
    step, shown = failure(result := run(published, "freshness"))
    assert step == "published_bundle_current_is_fresh"
    (checked,) = result.get_asset_check_evaluations()
    assert not checked.passed
    assert "confirmed 49.0 hours ago, expected at most 48" in checked.description
    assert shown
    published.configure("beta", "alpha", more="[automation]\nmax_age_hours = 72\n")
    assert run(published, "freshness").success
    monkeypatch.setattr(module.time, "time", lambda: now - 10 * 3600)
    assert run(published, "freshness").success, "a clock that was set back makes nothing stale"


def test_a_run_that_finds_nothing_new_confirms_current(published, monkeypatch):
    built = published.manifest.created
    assert published.reindex().success
    assert published.manifest.created == built
    event = published.instance.get_latest_materialization_event(dg.AssetKey("published_bundle"))
    monkeypatch.setattr(module.time, "time", lambda: event.timestamp + 47 * 3600)
    assert run(published, "freshness").success


def test_an_old_current_that_holds_every_head_is_fresh(published, monkeypatch):
    """Where only the sensor of heads works, nothing runs while nothing changes."""
    folders = [published.folder / "repositories" / name for name in ("alpha", "beta")]
    for folder in folders:
        commit(folder)
    assert published.reindex().success
    now = time.time()
    monkeypatch.setattr(module.time, "time", lambda: now + 1000 * 3600)
    result = run(published, "freshness")
    assert result.success
    (checked,) = result.get_asset_check_evaluations()
    assert checked.description == "CURRENT holds the head of every repository"
    commit(folders[1])
    assert not run(published, "freshness").success


def test_freshness_without_anything_published_fails_and_says_so(workbench):
    assert "nothing is published" in failure(run(workbench, "freshness"))[1]


@pytest.mark.parametrize("enabled", [True, False])
def test_cron_and_status_of_both_are_the_settings(workbench, enabled):
    told = str(enabled).lower()
    workbench.configure(
        more=f'[automation]\nretention = {told}\nretention_cron = "1 2 * * 0"\nfreshness = {told}\n'
        '[schedule]\ntimezone = "Europe/Zurich"\n'
    )
    definitions = build_definitions(workbench.project)
    for name, cron in (("retention_schedule", "1 2 * * 0"), ("freshness_schedule", "0 7 * * *")):
        schedule = definitions.resolve_schedule_def(name)
        assert (schedule.cron_schedule, schedule.execution_timezone) == (cron, "Europe/Zurich")
        assert (schedule.default_status is dg.DefaultScheduleStatus.RUNNING) is enabled


def test_a_remote_that_does_not_answer_is_waited_for_ever_longer(workbench):
    workbench.configure("beta", more="[automation]\nremote_retries = 4\nremote_wait_s = 30\n")
    waits = []
    for tries in range(3):
        with pytest.raises(dg.RetryRequested) as asked, workbench.project.explained(tries):
            raise RemoteError("it did not answer")
        waits.append((asked.value.max_retries, asked.value.seconds_to_wait))
    assert waits == [(4, 30.0), (4, 60.0), (4, 120.0)]


def test_data_that_is_wrong_is_not_tried_again(workbench):
    with pytest.raises(dg.Failure), workbench.project.explained(0):
        raise PublishError("half the vectors are gone")


def test_a_fetch_that_breaks_off_is_tried_again_for_its_repository_alone(workbench, monkeypatch):
    folder = workbench.folder / "repositories" / "alpha"
    commit(folder)
    text = (
        f'[sources]\nrepositories = [{{ path = "repositories/beta" }}, {{ url = "file://{folder}", name = "far" }}]\n'
        "[automation]\nremote_wait_s = 0\n"
    )
    (workbench.folder / "dagster_project.toml").write_text(text)
    script = f"""case "$*" in *ls-remote*) if mkdir {workbench.folder}/broke 2>/dev/null; then
        echo 'fatal: Could not resolve host: far' >&2; exit 128; fi;; esac; exec $REAL "$@" """
    monkeypatch.setenv("PATH", shim(workbench.folder / "bin", "git", script))
    monkeypatch.setattr(git_remote, "WAITS_S", ())
    read = []
    real = snapshot.snapshot_repository

    def counted(repository, *rest):
        read.append(repository.name)
        return real(repository, *rest)

    monkeypatch.setattr(snapshot, "snapshot_repository", counted)
    result = workbench.reindex()
    assert result.success
    assert read == ["beta", "far", "far"]
    assert not [event for event in result.all_events if event.is_step_up_for_retry]
    assert not [
        each for each in result.get_asset_check_evaluations() if not each.passed and each.check_name == READ_CHECK
    ]


def test_a_clone_that_times_out_fails_its_step_after_the_last_try_and_says_so(workbench, monkeypatch):
    text = '[sources]\nrepositories = [{ url = "git://127.0.0.1:1/app" }]\n'
    text += "[automation]\nremote_wait_s = 0\nremote_retries = 2\n"
    (workbench.folder / "dagster_project.toml").write_text(text)
    monkeypatch.setattr(git_remote, "WAITS_S", ())
    monkeypatch.setattr(git_remote, "LIST_TIMEOUT_S", 0.5)
    asked = workbench.folder / "asked"
    script = f'case "$*" in *ls-remote*) echo asked >> {asked}; sleep 9;; esac; exec $REAL "$@" '
    monkeypatch.setenv("PATH", shim(workbench.folder / "bin", "git", script))
    result = workbench.reindex()
    assert (workbench.folder / "asked").read_text().count("asked") == 3
    step, shown = failure(result)
    assert step == "repository_snapshot"
    assert "did not answer in 0.5 s" in shown
    assert not workbench.root.current.exists()
