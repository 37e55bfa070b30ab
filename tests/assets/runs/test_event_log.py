"""Tests of the event log that keeps its SQL engines: the rows of Dagster's own storage, and no file kept open."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.event_log import SqliteEventLogStorage

from codequarry.assets.instance.event_log import KEPT_ENGINES, PooledEventLogStorage
from tests.assets.instance import instance_in

pytestmark = pytest.mark.integration


@dg.asset(check_specs=[dg.AssetCheckSpec("is_whole", asset="counted")])
def counted():
    """Return a materialization with one check."""
    return dg.MaterializeResult(
        metadata={"rows": 3}, check_results=[dg.AssetCheckResult(passed=True, check_name="is_whole")]
    )


@pytest.fixture
def instance(tmp_path):
    with instance_in(tmp_path) as instance:
        yield instance


def test_what_it_stores_is_what_dagsters_own_storage_reads(instance, tmp_path):
    kept = instance.event_log_storage
    assert isinstance(kept, PooledEventLogStorage)
    runs = [dg.materialize([counted], instance=instance).run_id for _ in range(2)]
    own = SqliteEventLogStorage(str(tmp_path / "history" / "runs"))
    try:
        for run in runs:
            assert own.get_logs_for_run(run) == kept.get_logs_for_run(run)
            assert len(own.get_logs_for_run(run)) > 10
        key = dg.AssetKey("counted")
        (theirs,) = own.get_asset_records([key])
        (ours,) = kept.get_asset_records([key])
        assert theirs.asset_entry == ours.asset_entry
        assert ours.asset_entry.last_run_id == runs[-1]
        check = dg.AssetCheckKey(key, "is_whole")
        history = own.get_asset_check_execution_history(check, limit=9)
        assert history == kept.get_asset_check_execution_history(check, limit=9)
        assert [record.run_id for record in history] == runs[::-1]
    finally:
        own.dispose()


def test_another_process_writes_while_the_index_is_open(instance, tmp_path):
    first = dg.materialize([counted], instance=instance).run_id
    program = (
        "import dagster as dg\n"
        "@dg.asset\n"
        "def counted(): return 1\n"
        "with dg.DagsterInstance.get() as instance: print(dg.materialize([counted], instance=instance).run_id)"
    )
    environment = {**os.environ, "DAGSTER_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    second = done.stdout.strip()
    assert instance.get_asset_records([dg.AssetKey("counted")])[0].asset_entry.last_run_id == second != first
    assert len(instance.all_logs(second)) > 5


def test_the_database_of_a_run_is_written_and_closed_so_that_the_live_view_hears_of_events(instance, tmp_path):
    run = instance.create_run_for_job(dg.Definitions([counted]).resolve_implicit_global_asset_job_def())
    heard = threading.Event()
    instance.watch_event_logs(
        run.run_id, None, lambda event, _cursor: event.dagster_event.message == "the second" and heard.set()
    )
    instance.report_engine_event("the first", run)
    instance.report_engine_event("the second", run)
    assert heard.wait(30)
    instance.event_log_storage.dispose()
    database = tmp_path / "history" / "runs" / f"{run.run_id}.db"
    assert database.exists()
    assert not Path(f"{database}-wal").exists()


def test_engines_are_bounded_and_a_wipe_begins_anew(instance):
    storage = instance.event_log_storage
    for _ in range(KEPT_ENGINES + 2):
        dg.materialize([counted], instance=instance)
    assert len(storage._engines) == KEPT_ENGINES
    instance.wipe()
    assert instance.get_asset_records([dg.AssetKey("counted")]) == []
    run = dg.materialize([counted], instance=instance).run_id
    assert instance.get_asset_records([dg.AssetKey("counted")])[0].asset_entry.last_run_id == run
