"""Partitions follow the settings, and the schedule is the settings'."""

from datetime import UTC, datetime

import dagster as dg
import pytest

from codequarry.assets.automation import reindex_schedule, repository_partitions
from codequarry.assets.definitions import build_definitions
from codequarry.assets.project import PARTITIONS, sync_partitions

NIGHT = datetime(2031, 5, 6, 3, tzinfo=UTC)


def tick_schedule(workbench):
    schedule = build_definitions(workbench.project).resolve_schedule_def("reindex_schedule")
    home = workbench.folder / "home"
    home.mkdir()
    # A schedule opens the instance by reference, which one in memory has not.
    with (
        dg.instance_for_test(temp_dir=str(home)) as instance,
        dg.build_schedule_context(instance, NIGHT, resources={"project": workbench.project}) as context,
    ):
        tick = schedule.evaluate_tick(context)
        return tick, instance.get_dynamic_partitions(PARTITIONS)


def tick_sensor(workbench):
    resources = {"project": workbench.project}
    with dg.build_sensor_context(instance=workbench.instance, resources=resources) as context:
        return repository_partitions(context)


def test_synchronising_adds_what_the_settings_name_and_deletes_the_rest(workbench):
    workbench.instance.add_dynamic_partitions(PARTITIONS, ["obsolete", "alpha"])
    settings = workbench.project.settings()
    assert sync_partitions(workbench.instance, settings) == ("alpha", "beta")
    assert workbench.instance.get_dynamic_partitions(PARTITIONS) == ["alpha", "beta"]
    assert sync_partitions(workbench.instance, settings) == ("alpha", "beta")


def test_the_sensor_requests_the_same_change_and_then_rests(workbench):
    workbench.instance.add_dynamic_partitions(PARTITIONS, ["obsolete", "alpha"])
    added, deleted = tick_sensor(workbench).dynamic_partitions_requests
    assert (added.partitions_def_name, added.partition_keys) == (PARTITIONS, ["beta"])
    assert (deleted.partitions_def_name, deleted.partition_keys) == (PARTITIONS, ["obsolete"])
    sync_partitions(workbench.instance, workbench.project.settings())
    assert isinstance(tick_sensor(workbench), dg.SkipReason)


def test_the_sensor_deletes_nothing_when_the_settings_cannot_be_read(workbench):
    sync_partitions(workbench.instance, workbench.project.settings())
    workbench.configure(more="[sources\n")
    with pytest.raises(ValueError, match="cannot be read as TOML"):
        tick_sensor(workbench)
    assert set(workbench.instance.get_dynamic_partitions(PARTITIONS)) == {"alpha", "beta"}


def test_the_sensor_starts_by_itself():
    assert repository_partitions.default_status is dg.DefaultSensorStatus.RUNNING


@pytest.mark.parametrize("enabled", [True, False])
def test_cron_time_zone_and_status_come_from_the_settings(workbench, enabled):
    written = f'[schedule]\ncron = "30 4 * * 1"\ntimezone = "Europe/Zurich"\nenabled = {str(enabled).lower()}\n'
    workbench.configure(more=written)
    schedule = reindex_schedule(workbench.project.settings().schedule)
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("30 4 * * 1", "Europe/Zurich")
    assert schedule.job_name == "REINDEX"
    assert (schedule.default_status is dg.DefaultScheduleStatus.RUNNING) is enabled


def test_a_tick_asks_for_one_run_that_does_the_whole_job(workbench):
    tick, registered = tick_schedule(workbench)
    (request,) = tick.run_requests
    assert registered == ["beta", "alpha"]
    workbench.instance.add_dynamic_partitions(PARTITIONS, registered)
    assert workbench.run(dict(request.tags)).success
    assert [source.name for source in workbench.manifest.sources] == ["alpha", "beta"]


def test_a_tick_without_repositories_says_so(workbench):
    workbench.configure()
    tick, _ = tick_schedule(workbench)
    assert not tick.run_requests
    assert "the settings name no repository" in tick.skip_message
