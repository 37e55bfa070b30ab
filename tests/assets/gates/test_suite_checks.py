"""The checks of tables: SQL judges rows and stops a run, Great Expectations measures and warns."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from codequarry.assets.automation import whole
from codequarry.assets.bundle import ACCEPT_TAG
from codequarry.assets.checks import CHECKED, check_name, statistics_name
from codequarry.assets.project import sync_partitions
from codequarry.pipelines.gates import great_expectations
from codequarry.pipelines.gates.kept_documents import documents_folder
from codequarry.pipelines.gates.native_suites import NATIVE_SUITES
from codequarry.pipelines.modules import stage as modules
from codequarry.pipelines.store.workspace import repository_work
from codequarry.schemas.bundle.tables import SCHEMAS, write_table
from codequarry.schemas.gates.suites import MODULES
from tests.assets.conftest import Workbench


def evaluations(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    return {each.check_name: each for each in result.get_asset_check_evaluations()}


def test_every_row_of_every_table_is_judged_in_every_run(first_run) -> None:
    workbench, result = first_run
    found = evaluations(result)
    suites = {check_name(table): asset for table, asset in CHECKED.items()}
    assert all(found[name].passed and found[name].blocking for name in suites)
    assert {name: found[name].asset_key.to_user_string() for name in suites} == suites
    rows = {name: found[name].metadata["rows"].value for name in suites}
    assert rows["rows_of_chunks"] == rows["rows_of_embeddings"] == workbench.manifest.counts.chunks
    shown = str(found["rows_of_modules"].metadata["expectations"].value)
    assert all(expectation.name in shown for expectation in MODULES.expectations)


def test_great_expectations_measures_every_table_in_a_named_run_that_is_kept(first_run) -> None:
    workbench, result = first_run
    found = evaluations(result)
    folder = documents_folder(workbench.project.settings().paths.work)
    for table, asset in CHECKED.items():
        check = found[statistics_name(table)]
        assert (check.asset_key.to_user_string(), check.blocking) == (asset, False)
        assert check.passed, check.description
        (file,) = (folder / table).glob("*.json")
        document = json.loads(file.read_text(encoding="utf-8"))
        assert document["meta"]["run_id"]["run_name"] == f"beta, alpha ({result.run_id})"
        assert document["meta"]["codequarry"]["repositories"] == ["beta", "alpha"]
        assert Path(str(check.metadata["page"].value)).is_file()
        assert check.metadata["document"].value == str(file)
    chunks = found["gx_chunks"]
    assert (chunks.metadata["found"].value, chunks.metadata["allowed"].value) == (0.0, 0)
    assert chunks.metadata["kinds_of_chunks_that_are_no_words"].value == 0.0
    assert "5 not asked of so few rows" in (chunks.description or "")
    assert "no version is published" in (chunks.description or "")


def test_an_unchanged_table_is_answered_from_its_document(published: Workbench, monkeypatch) -> None:
    monkeypatch.setattr(great_expectations, "_run", pytest.fail)
    found = evaluations(published.reindex())
    for table in CHECKED:
        check = found[statistics_name(table)]
        assert check.passed
        assert check.metadata["unchanged"].value is True
        assert (check.description or "").count("nothing changed since the run beta, alpha") == 1


def test_what_great_expectations_finds_warns_and_stops_nothing(published: Workbench, monkeypatch) -> None:
    published.write("alpha/added.py", "import os\n\n\ndef added() -> str:\n    return os.name\n")
    suite = NATIVE_SUITES["modules"]
    strict = tuple(
        replace(each, arguments={**each.arguments, "min_value": 1})
        if each.name == "modules with more external imports than imports"
        else each
        for each in suite.expectations
    )
    monkeypatch.setitem(NATIVE_SUITES, "modules", replace(suite, expectations=strict))
    result = published.reindex()
    assert result.success
    check = evaluations(result)["gx_modules"]
    assert not check.passed
    assert check.severity == dg.AssetCheckSeverity.WARN
    assert (check.description or "").startswith("modules with more external imports than imports: 3, allowed 0")
    assert published.manifest.counts.files == 5
    assert check.metadata["found"].value == 3.0


def test_the_command_measures_a_published_version_and_builds_the_pages(first_run, tmp_path: Path) -> None:
    workbench, _ = first_run
    shutil.copytree(workbench.folder, tmp_path / "project")

    def gates(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "codequarry.pipelines.cli", "gates", *arguments],
            cwd=tmp_path / "project", capture_output=True, text=True, check=False,
        )  # fmt: skip

    done = gates("check", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["version"] == workbench.manifest.version
    idle = {"ast_members", "scip_symbols", "scip_occurrences", "embeddings"}
    assert {row["table"] for row in report["gates"]} == CHECKED.keys() - idle
    assert all(row["passed"] for row in report["gates"])
    done = gates("docs", "--out", "pages")
    assert done.returncode == 0, done.stderr
    index = (tmp_path / "project" / "pages" / "index.html").read_text(encoding="utf-8")
    assert "beta, alpha" in index
    assert workbench.manifest.version in index


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
    assert not made & {"manifest", "published_bundle"}
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
    assert event.step_key == "index_version"
    assert "--accept-regression" in str(data.metadata["suggestion"].value)
    assert "indexed files that went: alpha: 14 -> 6 files" in data.description
    assert published.root.current.read_bytes() == before
    keys = sync_partitions(published.instance, published.project.settings())
    accepting = published.run({**whole(keys), ACCEPT_TAG: "the parts are gone"})
    assert accepting.success
    warned = evaluations(accepting)["indexed_files_that_went"]
    assert (warned.passed, warned.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "accepted: the parts are gone" in (warned.description or "")
    accepted = published.manifest.accepted
    assert {each.check for each in accepted} >= {"indexed files that went"}
    assert {each.reason for each in accepted} == {"the parts are gone"}
