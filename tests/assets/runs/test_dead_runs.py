"""Runs that died without a word are told from those that work, wait, or are none of ours."""

import time

import dagster as dg
import pytest

from codequarry.assets import automation as module
from codequarry.assets.automation import dead_runs
from codequarry.assets.definitions import build_definitions
from codequarry.pipelines.store.workspace import working

STARTED = dg.DagsterRunStatus.STARTED
OURS = dg.AssetKey("coverage_report")


@dg.asset
def elsewhere() -> None:
    """An asset of another project on the same instance."""


@pytest.fixture
def run(workbench):
    """A run that says it is going on."""
    job = build_definitions(workbench.project).resolve_job_def("REINDEX")
    return workbench.instance.create_run_for_job(job, status=STARTED)


@pytest.fixture
def later(monkeypatch):
    """Call it to let so much time pass that only a dead run is still silent."""
    now = time.time()
    return lambda: monkeypatch.setattr(module.time, "time", lambda: now + 2 * module.QUIET_S)


def found(workbench):
    return [run.run_id for run in dead_runs(workbench.instance, workbench.project.settings(), {OURS})]


def test_a_run_is_dead_when_it_is_silent_for_long(workbench, run, later):
    assert found(workbench) == []
    later()
    assert found(workbench) == [run.run_id]


def test_a_dead_run_from_before_the_job_was_renamed_is_found(workbench, later):
    former = dg.define_asset_job("reindex", selection=[elsewhere])
    before = dg.Definitions(assets=[elsewhere], jobs=[former]).resolve_job_def("reindex")
    dead = workbench.instance.create_run_for_job(before, status=STARTED)
    later()
    assert found(workbench) == [dead.run_id]


def test_a_run_in_a_step_is_alive_however_silent(workbench, run, later):
    later()
    with working(workbench.project.settings()):
        assert found(workbench) == []


def test_runs_over_our_assets_count_whatever_their_job_and_others_never(workbench, later):
    ours = build_definitions(workbench.project).resolve_implicit_global_asset_job_def()
    theirs = dg.Definitions(assets=[elsewhere]).resolve_implicit_global_asset_job_def()
    create = workbench.instance.create_run_for_job
    create(theirs, status=STARTED, asset_selection={elsewhere.key})
    create(theirs, status=STARTED)
    create(ours, status=dg.DagsterRunStatus.SUCCESS, asset_selection={OURS})
    dead = create(ours, status=STARTED, asset_selection={OURS})
    later()
    assert found(workbench) == [dead.run_id]


def test_the_sensor_starts_by_itself_and_makes_dead_runs_failed_ones(workbench, run, later):
    sensor = build_definitions(workbench.project).resolve_sensor_def("dead_runs")
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING
    later()
    for expected in ("runs reported as failed: 1", "runs reported as failed: 0"):
        with dg.build_sensor_context(workbench.instance, resources={"project": workbench.project}) as context:
            assert sensor(context).skip_message == expected
    assert workbench.instance.get_run_by_id(run.run_id).status is dg.DagsterRunStatus.FAILURE
