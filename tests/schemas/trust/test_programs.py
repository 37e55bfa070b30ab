"""Programs come from the user's tools folder or from entries of PATH that no repository controls."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codequarry.schemas.trust.programs import find_program, safe_path, tools_folder
from tests.pipelines.repositories import git


def program(folder: Path, name: str = "scip-python") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    return folder / name


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that is the current folder's; the user has no tools."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "repo" / "sub").mkdir(parents=True)
    git(tmp_path / "repo", "init", "--quiet")
    monkeypatch.chdir(tmp_path / "repo" / "sub")
    return tmp_path / "repo"


@pytest.mark.parametrize("entry", ["", ".", "bin", "../bin", "{repo}/bin", "{repo}/sub/../bin", "{link}"])
def test_an_entry_that_a_repository_controls_does_not_count(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    for folder in (repository / "bin", repository / "sub" / "bin", repository / "sub"):
        program(folder)
    (tmp_path / "link").symlink_to(repository / "bin")
    entry = entry.format(repo=repository, link=tmp_path / "link")
    monkeypatch.setenv("PATH", os.pathsep.join([entry, "/usr/bin"]))
    assert safe_path() == "/usr/bin"
    assert find_program("scip-python", tools=True) is None


def test_an_indexed_repository_brings_no_program(tmp_path: Path, repository: Path, monkeypatch) -> None:
    other = program(tmp_path / "other" / "bin")
    monkeypatch.setenv("PATH", str(other.parent))
    assert find_program("scip-python") == other
    assert find_program("scip-python", [tmp_path / "other"]) is None


def test_the_users_own_tools_come_first_and_the_stores_do_not_count(repository: Path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    program(repository / ".codequarry" / "store" / "tools" / "node_modules" / ".bin")
    assert find_program("scip-python", [repository], tools=True) is None
    own = program(tools_folder() / "node_modules" / ".bin")
    assert find_program("scip-python", [repository], tools=True) == own
    assert find_program("scip-python", [repository]) is None


def test_a_home_folder_under_git_keeps_the_users_programs(tmp_path: Path, monkeypatch) -> None:
    git(tmp_path, "init", "--quiet")
    own = program(tmp_path / ".local" / "bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(own.parent))
    monkeypatch.chdir(tmp_path)
    assert find_program("scip-python", [tmp_path]) == own
