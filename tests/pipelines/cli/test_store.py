"""``codequarry store``: what it costs, and its limit."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from codequarry.pipelines.store import content
from codequarry.pipelines.store.content import open_content_store
from tests.pipelines.conftest import run_here
from tests.pipelines.embed.encoders import small_encoder
from tests.pipelines.repositories import commit

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Costs = Callable[[], list[dict[str, Any]]]
MB = b"x" * 1_000_000


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Settings with a store of their own, over a repository of three files."""
    commit(tmp_path / "app", {f"{name}.py": f"def {name}(x):\n    return x\n" for name in ("one", "two", "three")})
    settings = tmp_path / "settings.toml"
    settings.write_text(
        f'[paths]\nstore = "store"\nwork = "work"\n[bundle]\nroot = "bundles"\n'
        f'[[sources.repositories]]\npath = "{tmp_path}/app"\n'
    )
    return settings


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run the command line with a store of its own, as the other tests share one."""
    environment = {"CODEQUARRY__PATHS__STORE": str(tmp_path / "store"), "COLUMNS": "80"}
    return partial(run_here, tmp_path, environment)


@pytest.fixture
def costs(project: Path, run: Run) -> Costs:
    def ask() -> list[dict[str, Any]]:
        done = run("store", "--json", "--settings", str(project))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return ask


def index(run: Run, settings: Path) -> None:
    done = run("index", "--settings", str(settings))
    assert done.returncode == 0, done.stderr


def test_the_store_says_what_each_part_costs(tmp_path: Path, project: Path, run: Run, costs: Costs) -> None:
    assert costs() == []
    index(run, project)
    index(run, project)
    commit(tmp_path / "app", {"four.py": "FOUR = 4\n"})
    index(run, project)
    said = costs()
    found = [(each["place"], each["what"], each["entries"]) for each in said]
    assert found[:3] == [("store", what, 4) for what in ("vectors", "syntax", "secrets")]
    assert (found[3][:2], said[3]["name"]) == (("work", "repository"), "app")
    versions = [each for each in said if each["place"] == "versions"]
    assert [each["name"] for each in versions] == sorted((each["name"] for each in versions), reverse=True)
    files = {(file.stat().st_dev, file.stat().st_ino): file.stat().st_size
             for file in (tmp_path / "bundles" / "versions").rglob("*") if file.is_file()}  # fmt: skip
    assert sum(each["size_bytes"] for each in versions) == sum(files.values())
    assert len(versions) == 2 and versions[0]["size_bytes"] > versions[1]["size_bytes"]
    for place, folder in (("store", "store"), ("work", "work/repositories")):
        own = (file.stat() for file in (tmp_path / folder).rglob("*") if file.is_file())
        on_disk = sum(one.st_size for one in own if (one.st_dev, one.st_ino) not in files)  # links are the version's
        assert sum(each["size_bytes"] for each in said if each["place"] == place) == on_disk


def test_vectors_are_named_by_their_encoder(
    tmp_path: Path, project: Path, run: Run, costs: Costs, kept_vectors: None
) -> None:
    small_encoder(tmp_path / "store" / "encoders" / "mine")
    project.write_text(project.read_text() + '[embedding]\nfolder = "store/encoders/mine"\n')
    index(run, project)
    said = {each["what"]: each for each in costs()}
    assert said["vectors"]["name"] == "small"
    assert said["vectors"]["entries"] == 6  # chunks and files
    assert said["encoders"]["name"] == "mine"


def test_people_read_it_in_80_columns(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    index(run, project)
    (database,) = (project.parent / "store" / "syntax").glob("*.sqlite")
    shutil.copyfile(database, database.with_name("f" * 64 + ".sqlite"))
    database.with_name("e" * 64 + ".sqlite").write_bytes(b"no database" * 500)
    said = run("store", "--settings", str(project)).stdout
    table = said.partition("store: ")[0].splitlines()
    assert max(map(len, table)) <= 80
    assert [line.split()[2] for line in table if line.split()[:1] == ["syntax"]].count("?") == 1


@pytest.fixture
def foreign(tmp_path: Path, project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[int, int]]:
    """Index; then a program before this one leaves megabytes that were used 20, 9 and 2 days ago, two on each day.

    Returns a function that counts those that are there, by days.
    """
    index(run, project)
    file, today = tmp_path / "store" / "syntax" / "before.sqlite", content._today()
    keys = {days: [f"{days} {number}".encode() for number in range(2)] for days in (2, 9, 20)}
    for days, names in keys.items():
        with monkeypatch.context() as patched, open_content_store(file) as store:
            patched.setattr(content, "_today", lambda days=days: today - days)
            store.put([(name, MB) for name in names])

    def count() -> dict[int, int]:
        with closing(sqlite3.connect(file)) as connection:
            held = {key for (key,) in connection.execute("SELECT key FROM entries")}
        return {days: len(held.intersection(names)) for days, names in keys.items()}

    return count


def entries(costs: Costs) -> dict[str, int]:
    """Entries of the databases of this program."""
    return {each["name"]: each["entries"] for each in costs() if each["place"] == "store" and each["name"] != "before"}


def test_gc_keeps_the_databases_to_their_limit(
    project: Path, run: Run, costs: Costs, foreign: Callable[[], dict[int, int]]
) -> None:
    own = entries(costs)
    assert run("store", "gc", "--settings", str(project)).returncode == 0
    assert foreign() == {2: 2, 9: 2, 20: 2}
    project.write_text(project.read_text() + "[store]\nmax_mb = 5\n")
    assert "would free 2.0 MB" in run("store", "gc", "--dry-run", "--settings", str(project)).stdout
    assert foreign() == {2: 2, 9: 2, 20: 2}
    assert "freed 2.0 MB" in run("store", "gc", "--settings", str(project)).stdout
    assert foreign() == {2: 2, 9: 2, 20: 0}
    assert "freed 0.0 MB" in run("store", "gc", "--settings", str(project)).stdout
    assert entries(costs) == own


def test_a_run_keeps_the_databases_to_their_limit_and_what_it_needs(
    tmp_path: Path, project: Path, run: Run, costs: Costs, foreign: Callable[[], dict[int, int]]
) -> None:
    own = entries(costs)
    project.write_text(project.read_text() + "[store]\nmax_mb = 3\n")
    commit(tmp_path / "app", {"four.py": "FOUR = 4\n"})
    index(run, project)
    assert foreign() == {2: 2, 9: 0, 20: 0}
    assert entries(costs) == {name: count + 1 for name, count in own.items()}
