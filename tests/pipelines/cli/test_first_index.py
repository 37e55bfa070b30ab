"""A command that asks about a repository makes its first index, and only there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codequarry.schemas.bundle.layout import BundleRoot
from tests.pipelines.conftest import Run, run_here
from tests.pipelines.repositories import commit

FILES: dict[str, str | bytes] = {
    "app.py": "def pour_tea(cup):\n    return cup + 1\n",
    "deep/down/leaf.py": "from app import pour_tea\n\nprint(pour_tea(2))\n",
}
SAID = "nothing is indexed here yet"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The folder in which commands run, as a git repository without an index."""
    folder = tmp_path / "cwd"
    folder.mkdir(exist_ok=True)
    commit(folder, FILES)
    return folder


def versions(folder: Path) -> list[str]:
    return BundleRoot(folder / ".codequarry" / "bundles").version_names()


def test_a_search_indexes_first_and_then_answers(run: Run, repository: Path) -> None:
    first = run("search", "pour tea", "--json")
    assert first.returncode == 0, first.stderr
    assert SAID in first.stderr
    assert "indexed 2 files, 2 chunks in" in first.stderr
    assert json.loads(first.stdout)["results"][0]["metadata"]["uri"] == "cwd/app.py"
    (version,) = versions(repository)
    again = run("grep", "pour_tea")
    assert SAID not in again.stderr
    assert "app.py" in again.stdout
    assert versions(repository) == [version]


@pytest.mark.parametrize(
    "command",
    [["grep", "pour_tea"], ["definition", "pour_tea"], ["references", "pour_tea"], ["files"], ["explore", "tea"]],
    ids=lambda command: command[0],
)
def test_from_a_folder_below_the_whole_work_tree_is_indexed(
    repository: Path, shared_store: Path, command: list[str]
) -> None:
    below, given = repository / "deep" / "down", {"CODEQUARRY__PATHS__STORE": str(shared_store), "COLUMNS": "100"}
    done = run_here(below, given, *command)
    assert done.returncode == 0, done.stderr
    assert f"indexing {repository} first" in done.stderr.replace("\n", "")
    assert len(versions(repository)) == 1
    assert not (below / ".codequarry").exists()
    assert "app.py" in run_here(below, given, "grep", "def pour_tea").stdout


def test_the_list_of_a_settings_file_is_what_is_indexed(run: Run, repository: Path) -> None:
    (repository / "dagster_project.toml").write_text('[sources]\nrepositories = [{ path = "deep", name = "only" }]\n')
    done = run("files", "--json")
    assert done.returncode == 0, done.stderr
    assert {each["uri"] for each in json.loads(done.stdout)["files"]} == {"only/down/leaf.py"}


@pytest.mark.parametrize(
    "command",
    [["search", "tea", "--root", "elsewhere"], ["grep", "tea", "--root=elsewhere"], ["sql", "SELECT 1"], ["verify"]],
    ids=["root", "root=", "sql", "verify"],
)
def test_other_commands_and_other_places_do_not_index(run: Run, repository: Path, command: list[str]) -> None:
    done = run(*command)
    assert done.returncode != 0
    assert SAID not in done.stderr
    assert "no bundle is published" in done.stderr.replace("\n", " ")
    assert versions(repository) == []


def test_outside_of_a_repository_nothing_is_indexed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cwd" / "app.py").write_text("def pour_tea(): ...\n")
    done = run("search", "tea")
    assert (done.returncode, done.stdout) == (2, "")
    assert "run `codequarry index PATH` first" in done.stderr.replace("\n", " ")
    assert versions(tmp_path / "cwd") == []


def test_a_work_tree_that_is_the_home_folder_is_not_indexed(
    run: Run, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(repository))
    assert run("search", "tea").returncode == 2
    assert versions(repository) == []


def test_a_first_index_that_fails_says_why(run: Run, repository: Path) -> None:
    (repository / "dagster_project.toml").write_text("[checks]\nmin_chunks = 1000\n")
    done = run("search", "tea")
    assert done.returncode != 0
    assert "chunks: 3, expected at least 1000" in done.stderr
    assert "Traceback" not in done.stderr
    assert versions(repository) == []
