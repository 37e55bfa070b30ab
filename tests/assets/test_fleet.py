"""A fleet in Dagster: a run for each bundle that moved, then one for the generation, tick by tick."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from codequarry.assets.automation import dead_runs
from codequarry.assets.definitions import build_definitions
from codequarry.assets.fleet.bundles import BUNDLES, FLEET_BUNDLE, FLEET_GENERATION
from codequarry.assets.fleet.sensor import WHY_TAG, bundles_due, is_of_fleet, is_worked_on
from codequarry.pipelines.fleet.fleet_store import FleetStore
from codequarry.pipelines.store.workspace import exclusive
from codequarry.schemas.fleet.generation import FleetManifest
from tests.assets.conftest import PYTHON, Workbench
from tests.pipelines.repositories import commit

NAMES = ("ant", "bee", "cat")
MORE = (
    '[retrieval]\nenabled = false\n[fleet]\nurl = "file://{folder}/shared"\nbundle_chunks = 2\nbundle_chunks_max = 4\n'
)


class Fleet:
    """The sensor with its cursor, the runs that it asks for, and the generation that is current."""

    def __init__(self, bench: Workbench) -> None:
        self.bench, self.cursor = bench, None

    def configure(self, *names: str) -> None:
        listed = ", ".join(f'{{ path = "repositories/{name}", ref = "main" }}' for name in names)
        text = f"[sources]\nrepositories = [{listed}]\n{MORE.format(folder=self.bench.folder)}"
        (self.bench.folder / "dagster_project.toml").write_text(text, encoding="utf-8")

    def save(self, name: str, text: str) -> None:
        commit(self.bench.folder / "repositories" / name, {f"{name}.py": text})

    def tick(self) -> dg.SensorResult:
        sensor: Any = build_definitions(self.bench.project).resolve_sensor_def("fleet_heads")
        with dg.build_sensor_context(
            self.bench.instance, cursor=self.cursor, resources={"project": self.bench.project}
        ) as context:
            result = sensor(context)
        self.cursor = result.cursor
        return result

    def run(self, result: dg.SensorResult) -> list[dg.ExecuteInProcessResult]:
        """Run what the daemon starts."""
        definitions = build_definitions(self.bench.project)
        return [
            definitions.resolve_job_def(request.job_name or "").execute_in_process(
                instance=self.bench.instance,
                tags=dict(request.tags),
                partition_key=request.partition_key,
                raise_on_error=False,
            )
            for request in result.run_requests or []
        ]

    @property
    def current(self) -> FleetManifest:
        return FleetStore.open(self.bench.project.settings()).require_current().manifest

    def metadata(self, asset: str) -> dict[str, Any]:
        event = self.bench.instance.get_latest_materialization_event(dg.AssetKey(asset))
        assert event is not None and event.asset_materialization is not None
        return {name: value.value for name, value in event.asset_materialization.metadata.items()}


def asked(result: dg.SensorResult) -> list[tuple[str | None, str | None, str]]:
    return [(each.job_name, each.partition_key, each.tags[WHY_TAG]) for each in result.run_requests or []]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet after its first runs. Not to be changed: ``fleet`` is a copy."""
    with dg.DagsterInstance.ephemeral() as instance:
        fleet = Fleet(Workbench(tmp_path_factory.mktemp("fleet"), instance))
        for name in NAMES:
            fleet.save(name, PYTHON.format(name=name))
        fleet.configure(*NAMES)
        first = fleet.tick()
        assert asked(first) == [("FLEET", None, "there is no generation")]
        (run,) = fleet.run(first)
        assert run.success
        assert asked(fleet.tick()) == []
        assert len(instance.get_dynamic_partitions(BUNDLES)) > 1
        yield fleet


@pytest.fixture
def fleet(served: Fleet, tmp_path: Path, workbench: Workbench) -> Fleet:
    """A copy of the fleet, whose instance has seen no run, over the same store and partitions."""
    shutil.rmtree(tmp_path)
    shutil.copytree(served.bench.folder, tmp_path, symlinks=True)
    workbench.instance.add_dynamic_partitions(BUNDLES, served.bench.instance.get_dynamic_partitions(BUNDLES))
    fleet = Fleet(workbench)
    fleet.configure(*NAMES)
    fleet.cursor = served.cursor
    return fleet


def test_the_first_run_makes_a_generation_of_all_bundles(served: Fleet) -> None:
    manifest = served.current
    assert manifest.generation == 1
    assert {name for entry in manifest.bundles.values() for name in entry.repositories} == {*NAMES}
    said = served.metadata(FLEET_GENERATION)
    assert (said["generation"], said["unchanged"], said["repositories"]) == (1, False, 3)


def test_without_a_change_nothing_is_asked_for(served: Fleet) -> None:
    for _ in range(3):
        tick = served.tick()
        assert asked(tick) == []
    assert tick.skip_reason is not None and "wait for another try" in (tick.skip_reason.skip_message or "")


def test_a_push_is_a_run_of_its_bundle_and_of_the_generation(fleet: Fleet) -> None:
    before = fleet.current
    fleet.save("bee", "def changed():\n    return 1\n")
    tick = fleet.tick()
    ((job, bundle, why),) = asked(tick)
    assert (job, bundle) == ("FLEET_BUNDLE", before.bundle_of["bee"]) and why.startswith("bee is at ")
    (built,) = fleet.run(tick)
    assert built.success and fleet.metadata(FLEET_BUNDLE)["outcome"] == "built"
    assert fleet.metadata(FLEET_BUNDLE)["sent_bytes"] > 20_000
    assert fleet.current.generation == 1
    tick = fleet.tick()
    assert asked(tick) == [("FLEET", None, "bundles were built")]
    (made,) = fleet.run(tick)
    assert made.success
    assert fleet.metadata(FLEET_GENERATION)["sent_bytes"] == 0, "the run of the bundle has put its version"
    after = fleet.current
    assert after.generation == 2
    changed = {name for name, entry in after.bundles.items() if entry != before.bundles.get(name)}
    assert changed == {bundle}
    assert asked(fleet.tick()) == []


def test_a_bundle_that_cannot_be_built_goes_on_and_is_tried_again_later(fleet: Fleet) -> None:
    before = fleet.current
    shutil.rmtree(fleet.bench.folder / "repositories" / "cat")
    tick = fleet.tick()
    ((_, bundle, why),) = asked(tick)
    assert why == "cat does not answer"
    fleet.run(tick)
    (made,) = fleet.run(fleet.tick())
    assert made.success
    (check,) = made.get_asset_check_evaluations()
    assert not check.passed and check.severity == dg.AssetCheckSeverity.WARN and "cat" in (check.description or "")
    assert fleet.current.bundles[bundle or ""].version == before.bundles[bundle or ""].version
    again = fleet.tick()
    assert asked(again) == [("FLEET_BUNDLE", bundle, "its last build failed")]
    fleet.run(again)
    fleet.run(fleet.tick())
    assert asked(fleet.tick()) == [], "the same reason counts again after a minute"
    held = json.loads(fleet.cursor or "{}")[bundle]
    assert bundles_due({bundle: held[0]}, {bundle: held}, held[2] + 1)[0] == {bundle: held[0]}  # pyright: ignore


def test_what_the_settings_drop_leaves_the_generation(fleet: Fleet) -> None:
    bundle = fleet.current.bundle_of["ant"]
    alone = set(fleet.current.bundles[bundle].repositories) == {"ant"}
    fleet.configure("bee", "cat")
    while asked(tick := fleet.tick()):
        assert all(run.success for run in fleet.run(tick))
    assert {name for entry in fleet.current.bundles.values() for name in entry.repositories} == {"bee", "cat"}
    assert (bundle in fleet.bench.instance.get_dynamic_partitions(BUNDLES)) is not alone


def test_a_bundle_by_hand_needs_no_plan_and_an_unknown_one_is_named(fleet: Fleet) -> None:
    (fleet.bench.folder / ".codequarry" / "fleet" / "plan.json").unlink()
    bundle = fleet.current.bundle_of["ant"]
    job = build_definitions(fleet.bench.project).resolve_job_def("FLEET_BUNDLE")
    done = job.execute_in_process(instance=fleet.bench.instance, partition_key=bundle, raise_on_error=False)
    assert done.success and fleet.metadata(FLEET_BUNDLE)["outcome"] == "unchanged"
    fleet.bench.instance.add_dynamic_partitions(BUNDLES, ["b99"])
    done = job.execute_in_process(instance=fleet.bench.instance, partition_key="b99", raise_on_error=False)
    (event,) = [each for each in done.all_events if each.is_step_failure]
    assert "the fleet has no bundle b99" in str(event.step_failure_data)


def test_a_reason_that_stays_counts_again_after_longer_and_longer_waits() -> None:
    now, waits, times = 0.0, {}, []
    for _ in range(4000):
        due, waits = bundles_due({"b1": "x does not answer", "b2": ""}, waits, now)
        times += [now] if due else []
        now += 10
    assert times[:5] == [0, 60, 180, 420, 900]
    assert max(late - early for early, late in pairwise(times)) == 3600
    assert bundles_due({"b1": "x is at 1"}, waits, now)[0] == {"b1": "x is at 1"}


def test_a_backfill_counts_as_running_and_a_dead_run_is_told_from_a_living_one(fleet: Fleet) -> None:
    instance, settings = fleet.bench.instance, fleet.bench.project.settings()
    bundle = fleet.current.bundle_of["ant"]
    for job, selection, tags in (
        ("__ASSET_JOB", {dg.AssetKey(FLEET_BUNDLE)}, {"dagster/partition": bundle}),
        ("FLEET", None, {}),
    ):
        whole = build_definitions(fleet.bench.project).resolve_job_def("FLEET")
        run = instance.create_run_for_job(whole, status=dg.DagsterRunStatus.STARTED, tags=tags)
        run = run._replace(job_name=job, asset_selection=frozenset(selection) if selection else None)
        assert is_of_fleet(run)
        assert not is_worked_on(run, settings)
    assert "2 runs of the fleet are not finished" in str(fleet.tick().skip_reason)
    with exclusive(settings.fleet.folder / ".lock", "building the fleet"):
        assert is_worked_on(run, settings)
    assert len(dead_runs(instance, settings, set())) == 0, "they were quiet for less than five minutes"


def test_without_a_fleet_there_is_none_in_dagster(workbench: Workbench) -> None:
    keys = {key.to_user_string() for key in build_definitions(workbench.project).resolve_all_asset_keys()}
    assert not keys & {FLEET_BUNDLE, FLEET_GENERATION}
