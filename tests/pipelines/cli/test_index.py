"""`codequarry index` as a person runs it: what it prints, what it returns, and how it fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codequarry.schemas.bundle.layout import BundleRoot
from tests.pipelines.conftest import MAIN, Run
from tests.pipelines.corpus import write_shop, write_tools
from tests.pipelines.repositories import commit, git


def test_index_prints_a_summary_and_the_path_of_the_version(run: Run, tmp_path: Path) -> None:
    shop, tools = write_shop(tmp_path), f"utils={write_tools(tmp_path)}"
    done = run("index", shop, tools)
    assert done.returncode == 0, done.stderr
    root = BundleRoot(tmp_path / "cwd" / ".codequarry" / "bundles")
    assert done.stdout.strip() == str(root.version(root.read_current().version).path)
    lines = done.stderr.splitlines()
    assert len(lines) <= 8, "one for each repository, one for what is missing, and five"
    for expected in ("shop: commit", "utils: commit", "not run: scip-python", "1 binary", "chunks", "MB", "published"):
        assert expected in done.stderr
    (shop / "shop" / "extra.py").write_text("def added():\n    return 1\n")
    assert re.search(r"1 file read anew, [1-9]\d* as before", run("index", shop, tools).stderr)
    told = run("index", shop, tools, "--force", "--verbose").stderr
    for detail in ("shop: scip-python missing", "files indexed", "CPU seconds", "index shards", "tier fast", "vectors"):
        assert detail in told


def test_of_many_repositories_those_are_named_of_which_more_is_to_be_said(run: Run, tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / f"lib{number}").mkdir()
        (tmp_path / f"lib{number}" / "a.py").write_text(f"def made_{number}():\n    return {number}\n")
    places = [tmp_path / f"lib{number}" for number in range(7)]
    said = run("index", *places).stderr
    assert "7 repositories; `codequarry index --verbose` names them" in said
    assert "lib0" not in said
    assert len(said.splitlines()) <= 6
    assert "lib6: a directory without git" in run("index", *places, "--verbose").stderr


def test_the_current_folder_is_the_default_and_a_second_run_says_unchanged(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cwd" / "app.py").write_text("def start():\n    return 'started'\n")
    assert run("index").returncode == 0
    again = run("index")
    assert again.returncode == 0
    assert "unchanged: CURRENT already is" in again.stderr


def test_a_run_with_other_settings_says_why_it_makes_everything_anew(run: Run, tmp_path: Path) -> None:
    write_shop(tmp_path)
    settings = tmp_path / "settings.toml"
    repositories = '[[sources.repositories]]\npath = "shop"\n'
    settings.write_text(repositories)
    first = run("index", "--settings", settings)
    assert "made anew" not in first.stderr
    settings.write_text(f"{repositories}[chunking]\nmax_chars = 1200\n")
    again = run("index", "--settings", settings)
    assert again.returncode == 0, again.stderr
    assert "as settings or tools are not those of the version before: settings that decide the contents" in again.stderr
    assert "made anew" not in run("index", "--settings", settings, "--force").stderr


def test_what_indexing_leaves_in_a_repository_is_invisible_to_git(run: Run, tmp_path: Path) -> None:
    commit(tmp_path / "cwd", {"app.py": "def start():\n    return 'started'\n"})
    assert run("index").returncode == 0
    assert git(tmp_path / "cwd", "status", "--porcelain") == ""
    assert "with uncommitted changes" not in run("index").stderr


def test_the_settings_file_names_the_repositories(run: Run, tmp_path: Path) -> None:
    write_shop(tmp_path)
    settings = tmp_path / "settings.toml"
    settings.write_text('[bundle]\nroot = "elsewhere"\n[[sources.repositories]]\npath = "shop"\nname = "store"\n')
    done = run("index", "--settings", settings)
    assert done.returncode == 0, done.stderr
    assert "store: commit" in done.stderr
    assert (tmp_path / "elsewhere" / "CURRENT").is_file()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["index", "/nowhere/at/all"], 2, "/nowhere/at/all does not exist"),
        (["index", "a/app", "b/app"], 2, "two repositories are named 'app'"),
        (["index", "--settings", "missing.toml"], 2, "settings file not found: missing.toml"),
        (["index", "=x"], 2, "does not exist"),
    ],
)
def test_a_mistake_is_one_clear_message_and_a_non_zero_exit(
    run: Run, arguments: list[str], code: int, message: str
) -> None:
    done = run(*arguments)
    assert done.returncode == code, done.stderr
    assert message in done.stderr.replace("\n", " ")
    assert "try: " in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("command", ["index", "census", "evaluate"])
def test_an_installation_without_a_dependency_says_so(run: Run, command: str) -> None:
    program = "import sys; sys.modules['pathspec'] = None\n" + MAIN
    done = run(command, ".", program=program)
    assert done.returncode == 2
    assert "error: this needs pathspec, which is not installed" in done.stderr
    assert "try: run: pip install codequarry" in done.stderr
    assert "Traceback" not in done.stderr
