"""Places of the index: found from every folder below, and in the user's cache where nothing may be written."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.trust import state_home
from codequarry.schemas.trust.state_home import cached_base
from tests.pipelines.conftest import run_here
from tests.pipelines.repositories import commit, git

FILES: dict[str, str | bytes] = {
    "app.py": "def pour_tea(cup):\n    return cup + 1\n",
    "deep/down/leaf.py": "from app import pour_tea\n\nprint(pour_tea(2))\n",
}


class Place:
    """A repository, and commands that run in its folders with a cache of their own."""

    def __init__(self, folder: Path, cache: Path, store: Path) -> None:
        self.folder, self.below, self.cache = folder, folder / "deep" / "down", cache
        self._environment = {
            "CODEQUARRY__PATHS__STORE": str(store), "COLUMNS": "200", "XDG_CACHE_HOME": str(cache),
        }  # fmt: skip

    def run(self, *arguments: str, at: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        done = run_here(at or self.folder, {**self._environment, **environment}, *arguments)
        assert done.returncode == 0, done.stderr
        return done

    def files(self) -> dict[Path, float]:
        return {file: file.lstat().st_mtime for file in sorted(self.folder.rglob("*"))}


@pytest.fixture
def place(tmp_path: Path, shared_store: Path) -> Place:
    commit(tmp_path / "app", FILES)
    return Place(tmp_path / "app", tmp_path / "cache", shared_store)


@pytest.fixture
def read_only(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A checkout that this process must not write to; what it tells of itself is read, as root may write anywhere."""
    monkeypatch.setattr(state_home, "can_write", lambda folder: place.folder not in (folder, *folder.parents))
    folders = [place.folder, *(each for each in place.folder.rglob("*") if each.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    yield place
    for folder in folders:
        folder.chmod(0o755)


def test_a_read_only_checkout_is_indexed_and_answers_from_every_folder(read_only: Place) -> None:
    before = read_only.files()
    done = read_only.run("index", ".")
    home = read_only.cache / "codequarry" / cached_base(read_only.folder).name / ".codequarry"
    assert f"the index is kept in {home}" in done.stderr
    assert stat.S_IMODE(home.parent.stat().st_mode) == stat.S_IMODE(home.parent.parent.stat().st_mode) == 0o700
    for at in (read_only.folder, read_only.below):
        assert "app.py" in read_only.run("grep", "def pour_tea", at=at).stdout
        assert json.loads(read_only.run("versions", "--json", at=at).stdout)[0]["current"]
        for command in (["verify"], ["prune", "--dry-run"], ["store"], ["doctor"]):
            read_only.run(*command, at=at)
    assert "unchanged" in read_only.run("index", at=read_only.below).stderr
    assert read_only.files() == before


def test_a_question_in_a_read_only_checkout_indexes_it_first(read_only: Place) -> None:
    before = read_only.files()
    done = read_only.run("search", "pour tea", at=read_only.below)
    assert "the index is kept in" in done.stderr
    assert "../../app.py:1" in done.stdout
    assert read_only.files() == before


def test_a_place_that_the_user_names_keeps_everything_out_of_the_repository(place: Place, tmp_path: Path) -> None:
    before, home = place.files(), {"CODEQUARRY_HOME": str(tmp_path / "indexes")}
    done = place.run("index", **home)
    assert f"the index is kept in {tmp_path / 'indexes' / 'app-'}" in done.stderr
    assert "app.py" in place.run("grep", "def pour_tea", at=place.below, **home).stdout
    assert place.files() == before


def test_commands_that_write_find_the_index_from_a_folder_below(place: Place) -> None:
    place.run("index")
    root = BundleRoot(place.folder / ".codequarry" / "bundles")
    (first,) = root.version_names()
    (place.below / "more.py").write_text("def stir_tea(cup):\n    return cup\n")
    place.run("index", at=place.below)
    assert len(root.version_names()) == 2
    assert "more.py" in place.run("grep", "def stir_tea", at=place.folder).stdout
    place.run("rollback", at=place.below)
    assert root.read_current().version == first
    place.run("prune", "--dry-run", at=place.below)
    assert first in place.run("store", at=place.below).stderr + place.run("versions", at=place.below).stdout
    assert not (place.below / ".codequarry").exists()


def test_a_further_repository_is_added(place: Place, tmp_path: Path) -> None:
    commit(tmp_path / "pot", {"pot.py": "def boil_water(): ...\n"})
    place.run("index")
    done = place.run("index", str(tmp_path / "pot"))
    assert "added" in done.stderr
    found = json.loads(place.run("files", "--json", at=place.below).stdout)["files"]
    assert {each["uri"].partition("/")[0] for each in found} == {"app", "pot"}


@pytest.mark.parametrize("kind", ["no git", "no commit"])
def test_a_folder_without_a_commit_is_indexed_as_it_lies_there(place: Place, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "plain"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.py").write_text("def pour_tea(cup):\n    return cup + 1\n")
    if kind == "no commit":
        git(folder, "init", "--quiet")
    place.run("index", at=folder)
    assert "app.py" in place.run("grep", "pour_tea", at=folder / "src").stdout


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_permissions_decide(place: Place) -> None:
    place.folder.chmod(0o555)
    try:
        assert "the index is kept in" in place.run("index", ".").stderr
    finally:
        place.folder.chmod(0o755)
