"""Delta versions in Dagster: a job beside REINDEX, what its assets say, and the complete version that follows."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from codequarry.assets.automation import CHANGED_TAG, whole
from codequarry.assets.bundle import ACCEPT_TAG
from codequarry.assets.definitions import build_definitions
from codequarry.assets.delta_bundle import DELTA_BUNDLE, WANTED_TAG
from codequarry.assets.mcp_service import served_is_published
from codequarry.assets.project import sync_partitions
from codequarry.pipelines.run import index_repositories
from codequarry.serving.engine.engine import Engine
from tests.assets.conftest import PYTHON, Workbench
from tests.assets.test_reindex import materializations
from tests.pipelines.repositories import git

MORE = "[automation]\ndeltas = true\n[bundle]\ndelta_share = {share}\n[retrieval]\nenabled = false\n"


@pytest.fixture(scope="module")
def complete(first_run: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a project with deltas, whose first, complete version is published. Not to be changed."""
    folder = tmp_path_factory.mktemp("complete") / "project"
    shutil.copytree(first_run[0].folder, folder)
    with dg.DagsterInstance.ephemeral() as instance:
        bench = Workbench(folder, instance)
        for number in range(12):
            bench.write(f"alpha/mod{number}.py", PYTHON.format(name=f"alpha{number}"))
        bench.configure("beta", "alpha", more=MORE.format(share=1))
        assert bench.reindex().success
    return folder


@pytest.fixture
def stacking(complete: Path, tmp_path: Path, workbench: Workbench) -> Workbench:
    """A copy of that project, whose instance has seen no run."""
    shutil.rmtree(tmp_path)
    shutil.copytree(complete, tmp_path, symlinks=True)
    sync_partitions(workbench.instance, workbench.project.settings())
    return workbench


def delta(bench: Workbench, **tags: str) -> dg.ExecuteInProcessResult:
    """What the sensor of heads starts."""
    job = build_definitions(bench.project).resolve_job_def("DELTA")
    return job.execute_in_process(instance=bench.instance, tags=tags, raise_on_error=False)


def metadata_of(bench: Workbench, asset: str) -> dict[str, Any]:
    event = bench.instance.get_latest_materialization_event(dg.AssetKey(asset))
    assert event is not None and event.asset_materialization is not None
    return {name: value.value for name, value in event.asset_materialization.metadata.items()}


def checks_of(result: dg.ExecuteInProcessResult) -> dict[str, tuple[bool, str]]:
    return {each.check_name: (each.passed, each.description or "") for each in result.get_asset_check_evaluations()}


def wanted(bench: Workbench, result: dg.ExecuteInProcessResult) -> dg.RunRequest | dg.SkipReason:
    """What the sensor makes of a run."""
    sensor: Any = build_definitions(bench.project).resolve_sensor_def("complete_version_wanted")
    run = bench.instance.get_run_by_id(result.run_id)
    assert run is not None
    context = dg.build_run_status_sensor_context(
        sensor_name="complete_version_wanted",
        dagster_event=result.get_run_success_event(),
        dagster_instance=bench.instance,
        dagster_run=run,
        resources={"project": bench.project},
    )
    return sensor(context)


def test_a_run_publishes_a_delta_and_its_assets_say_what_it_is(stacking: Workbench) -> None:
    base = stacking.manifest.version
    stacking.write("alpha/mod3.py", "def replaced():\n    return 7\n")
    result = delta(stacking)
    assert result.success
    manifest = stacking.manifest
    assert manifest.stack is not None and manifest.stack.base == base
    assert set(materializations(result)) == {(DELTA_BUNDLE, None), ("published_bundle", None)}
    for asset in (DELTA_BUNDLE, "published_bundle"):
        said = metadata_of(stacking, asset)
        assert (said["is_delta"], said["base"], said["version"]) == (True, base, manifest.version)
        assert said["hidden_files"] == said["new_files"] == 1
        assert said["hidden_chunks"] == manifest.stack.hidden_chunks >= 1
        assert said["new_chunks"] == manifest.stack.chunks == 1
        assert 0 < said["bytes_written"] == manifest.size_bytes - said["linked_bytes"]
        assert said["seconds"] > 0
    found = checks_of(result)
    assert set(found) == {"rows_of_the_delta", "counts_and_shares_of_the_stack", "answers_about_changed_files"}
    assert all(passed for passed, _ in found.values())
    assert all("gates passed" in found[name][1] for name in ("rows_of_the_delta", "counts_and_shares_of_the_stack"))


def test_assets_of_stages_that_were_not_run_say_what_they_said(stacking: Workbench) -> None:
    stacking.write("alpha/mod5.py", "def read():\n    return 5\n")
    assert stacking.reindex().success
    before = {name: metadata_of(stacking, name) for name in ("manifest", "bm25", "faiss", "repository_chunks")}
    stacking.write("alpha/mod3.py", "def replaced():\n    return 7\n")
    assert delta(stacking).success
    assert {name: metadata_of(stacking, name) for name in before} == before


def test_a_complete_run_after_deltas_takes_their_place(stacking: Workbench) -> None:
    stacking.write("alpha/mod3.py", "def replaced():\n    return 7\n")
    assert delta(stacking).success
    stacking.write("beta/beta.py", "def beta_anew():\n    return 8\n")
    assert delta(stacking).success
    over = stacking.manifest
    assert over.stack is not None and over.stack.files == 2
    assert stacking.reindex().success
    complete = stacking.manifest
    assert complete.stack is None
    assert [source.tree_sha256 for source in complete.sources] == [source.tree_sha256 for source in over.sources]
    assert "is_delta" not in metadata_of(stacking, "published_bundle")
    stacking.write("alpha/mod4.py", "def again():\n    return 9\n")
    assert delta(stacking).success
    assert stacking.manifest.stack is not None and stacking.manifest.stack.base == complete.version


def test_a_run_without_a_change_publishes_nothing(stacking: Workbench) -> None:
    base = stacking.root.read_current()
    result = delta(stacking)
    assert result.success and materializations(result) == {}
    stacking.write("alpha/mod3.py", "def replaced():\n    return 7\n")
    assert delta(stacking).success
    over = stacking.root.read_current()
    result = delta(stacking)
    assert set(materializations(result)) == {(DELTA_BUNDLE, None)}
    assert metadata_of(stacking, DELTA_BUNDLE)["unchanged"] is True
    assert stacking.root.read_current() == over != base


def test_sources_that_go_back_make_the_complete_version_current_again(stacking: Workbench) -> None:
    base = stacking.root.read_current()
    stacking.write("alpha/mod3.py", "def replaced():\n    return 7\n")
    assert delta(stacking).success
    stacking.write("alpha/mod3.py", PYTHON.format(name="alpha3"))
    result = delta(stacking)
    assert stacking.root.read_current() == base
    assert set(materializations(result)) == {("published_bundle", None)}
    assert metadata_of(stacking, "published_bundle")["is_delta"] is False


def test_too_many_changes_ask_for_a_complete_version(stacking: Workbench) -> None:
    assert isinstance(wanted(stacking, delta(stacking)), dg.SkipReason)
    stacking.configure("beta", "alpha", more=MORE.format(share=0.01))
    before = stacking.root.read_current()
    stacking.write("alpha/mod3.py", "def replaced():\n    return 7\n")
    result = delta(stacking)
    assert result.success and materializations(result) == {}
    assert stacking.root.read_current() == before
    request = wanted(stacking, result)
    assert isinstance(request, dg.RunRequest)
    assert "more than 1% of the chunks changed" in request.tags[WANTED_TAG]
    assert stacking.run(dict(request.tags)).success
    assert stacking.manifest.stack is None
    with closing(Engine.open(stacking.root.path, stacking.project.settings().serving)) as engine:
        assert engine.bundle.manifest.version == stacking.manifest.version


def test_a_repository_that_cannot_be_read_asks_for_a_complete_run_which_names_it(stacking: Workbench) -> None:
    (stacking.folder / "repositories/beta").rename(stacking.folder / "aside")
    stacking.write("alpha/mod3.py", "def replaced():\n    return 7\n")
    request = wanted(stacking, delta(stacking))
    assert isinstance(request, dg.RunRequest) and "beta" in request.tags[WANTED_TAG]
    assert stacking.run(dict(request.tags)).success  # beta goes on with its last snapshot, which is a warning
    assert stacking.manifest.stack is None


def test_a_complete_run_takes_no_repository_back_behind_the_delta(stacking: Workbench) -> None:
    stacking.write("beta/beta.py", "def beta_anew():\n    return 8\n")
    assert delta(stacking).success
    over = stacking.root.read_current()
    keys = sync_partitions(stacking.instance, stacking.project.settings())
    result = stacking.run(whole(tuple(key for key in keys if key == "alpha")))
    assert not result.success
    (failure,) = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    assert failure.user_failure_data is not None
    assert "holds newer files of beta" in (failure.user_failure_data.description or "")
    assert stacking.root.read_current() == over
    (stacking.folder / "repositories/beta").rename(stacking.folder / "aside")
    assert not stacking.reindex().success
    assert stacking.root.read_current() == over
    (stacking.folder / "aside").rename(stacking.folder / "repositories/beta")
    assert stacking.reindex().success
    assert stacking.manifest.stack is None


def test_a_gate_that_fails_is_named_by_its_check_and_can_be_accepted(stacking: Workbench) -> None:
    before = stacking.root.read_current()
    for number in range(8):
        (stacking.folder / f"repositories/alpha/mod{number}.py").unlink()
    result = delta(stacking)
    assert not result.success
    found = checks_of(result)
    assert found["rows_of_the_delta"][0] and not found["counts_and_shares_of_the_stack"][0]
    assert "indexed files that went: alpha: 14 -> 6 files" in found["counts_and_shares_of_the_stack"][1]
    assert stacking.root.read_current() == before
    assert delta(stacking, **{ACCEPT_TAG: "they moved"}).success
    assert {entry.reason for entry in stacking.manifest.accepted} == {"they moved"}


def test_heads_are_published_as_deltas_where_the_settings_say_so(stacking: Workbench) -> None:
    folder = stacking.folder / "repositories/alpha"
    git(folder, "init", "--quiet", "-b", "main")
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=T", "-c", "user.email=t@example.invalid", "commit", "--quiet", "-m", "more")
    sensor = build_definitions(stacking.project).resolve_sensor_def("git_heads")
    with dg.build_sensor_context(stacking.instance, resources={"project": stacking.project}) as context:
        result: Any = sensor(context)
    (request,) = result.run_requests
    assert (request.job_name, request.tags[CHANGED_TAG]) == ("DELTA", "alpha")
    assert request.partition_key is None


def test_the_service_serves_a_delta_as_what_is_published(stacking: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    stacking.write("alpha/mod3.py", "def replaced():\n    return 7\n")
    assert delta(stacking).success
    settings = stacking.project.settings()
    with closing(Engine.open(stacking.root.path, settings.serving)) as engine:
        served = engine.bundle.info
    answer = {"status": "ok", "bundle": served.model_dump(mode="json")}
    monkeypatch.setattr("codequarry.assets.mcp_service._health", lambda address: answer)
    stacking.configure(
        "beta", "alpha", more=MORE.format(share=1).replace("deltas", 'service_url = "http://localhost:1"\ndeltas')
    )
    result: Any = served_is_published(stacking.project)
    assert result.passed and result.metadata["found"].value == stacking.manifest.version


def test_without_the_setting_there_is_neither_job_nor_asset(workbench: Workbench) -> None:
    definitions = build_definitions(workbench.project)
    assert DELTA_BUNDLE not in {key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()}
    assert "DELTA" not in {job.name for job in definitions.resolve_all_job_defs()}
    assert "complete_version_wanted" not in {sensor.name for sensor in definitions.sensors or ()}


def test_a_complete_version_of_the_command_line_over_a_delta_of_dagster(stacking: Workbench) -> None:
    stacking.write("alpha/mod3.py", "def replaced():\n    return 7\n")
    assert delta(stacking).success
    report = index_repositories(stacking.project.settings(), whole=True)
    assert report.manifest.stack is None and stacking.manifest.version == report.manifest.version
