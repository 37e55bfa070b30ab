"""Great Expectations as asset checks: what they judge, what they stop, what they leave behind."""

import json

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from codequarry.assets.automation import whole
from codequarry.assets.bundle import ACCEPT_TAG
from codequarry.assets.checks import CHECKED, check_name
from codequarry.assets.project import sync_partitions
from codequarry.pipelines.gates.great_expectations import documents_folder
from codequarry.pipelines.modules import stage as modules
from codequarry.pipelines.store.workspace import repository_work
from codequarry.schemas.bundle.tables import SCHEMAS, write_table
from codequarry.schemas.gates.suites import MODULES
from tests.assets.conftest import Workbench


def evaluations(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    return {each.check_name: each for each in result.get_asset_check_evaluations()}


def test_every_table_is_judged_in_every_run_and_its_document_kept(first_run) -> None:
    workbench, result = first_run
    found = evaluations(result)
    assert found.keys() == {check_name(table) for table in CHECKED}
    assert all(each.passed and each.blocking for each in found.values())
    assert {each.check_name: each.asset_key.to_user_string() for each in found.values()} == {
        check_name(table): asset for table, asset in CHECKED.items()
    }
    rows = {name: each.metadata["rows"].value for name, each in found.items()}
    assert rows["rows_of_chunks"] == rows["rows_of_embeddings"] == workbench.manifest.counts.chunks
    shown = str(found["rows_of_modules"].metadata["expectations"].value)
    assert all(expectation.name in shown for expectation in MODULES.expectations)
    kept = documents_folder(workbench.project.settings().paths.work)
    assert {file.stem for file in kept.glob("*.json")} == set(CHECKED)
    assert json.loads((kept / "chunks.json").read_text())["success"] is True


@pytest.fixture
def forgetful_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage that resolves imports to files that are not there, in one repository."""
    honest = modules.module_repository

    def broken(name, settings, progress):
        report = honest(name, settings, progress)
        if name == "alpha":
            file = repository_work(settings.paths.work, name).table("modules")
            table = pq.read_table(file)
            nowhere = pa.array([["no/where.py"]] * len(table), pa.list_(pa.string()))
            column = table.schema.get_field_index("resolved")
            write_table(file, table.set_column(column, table.schema.field(column), nowhere), SCHEMAS["modules"])
        return report

    monkeypatch.setattr(modules, "module_repository", broken)


def test_a_failed_suite_stops_the_run_and_says_why(published: Workbench, forgetful_modules: None) -> None:
    before = published.root.current.read_bytes()
    published.write("alpha/added.py", "def added() -> None:\n    return None\n")
    result = published.reindex()
    assert not result.success
    check = evaluations(result)["rows_of_modules"]
    assert not check.passed
    assert check.description == "imports that resolve to what is no module: 2, allowed 0"
    assert check.metadata["examples"].value == [
        "repo=alpha path=added.py lost=1",
        "repo=alpha path=alpha.py lost=1",
    ]
    made = {event.asset_key.to_user_string() for event in result.get_asset_materialization_events()}
    assert "repository_modules" in made
    assert not made & {"staged_bundle", "verified_bundle", "published_bundle"}
    assert published.root.current.read_bytes() == before


def test_a_run_of_one_repository_judges_no_other(published: Workbench, forgetful_modules: None) -> None:
    published.write("beta/added.py", "def added() -> None:\n    return None\n")
    found = evaluations(published.run({"dagster/partition": "beta"}))
    assert found["rows_of_modules"].passed
    assert found["rows_of_modules"].metadata["rows"].value == 2


def test_a_regression_is_accepted_by_a_tag_of_the_run(published: Workbench) -> None:
    for number in range(12):
        published.write(f"alpha/part{number}.py", f"def part{number}() -> int:\n    return {number}\n")
    assert published.reindex().success
    folder = published.folder / "repositories" / "alpha"
    for number in range(8):
        (folder / f"part{number}.py").unlink()
    before = published.root.current.read_bytes()
    stopped = published.reindex()
    (event,) = stopped.get_step_failure_events()
    data = event.step_failure_data.user_failure_data
    assert event.step_key == "verified_bundle"
    assert "--accept-regression" in str(data.metadata["suggestion"].value)
    assert "indexed files that went: alpha: 14 -> 6 files" in data.description
    assert published.root.current.read_bytes() == before
    keys = sync_partitions(published.instance, published.project.settings())
    assert published.run({**whole(keys), ACCEPT_TAG: "the parts are gone"}).success
    accepted = published.manifest.accepted
    assert {each.check for each in accepted} >= {"indexed files that went"}
    assert {each.reason for each in accepted} == {"the parts are gone"}
