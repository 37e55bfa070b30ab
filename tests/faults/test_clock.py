"""F20: the clock set back, or far ahead: versions stay in the order in which they were built."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from codequarry.pipelines.bundle import manifest as version_manifest
from tests.faults.scenes.project import Project

NOW = datetime.now(UTC).replace(microsecond=0)
CLOCKS = {"set back": NOW - timedelta(days=4000), "far ahead": NOW + timedelta(days=25_000)}


def index_at(project: Project, monkeypatch: pytest.MonkeyPatch, when: datetime, name: str) -> str:
    """Index a change by a clock that says this; the version."""
    monkeypatch.setattr(version_manifest, "time_of_build", lambda: when)
    project.change(name)
    code, said = project.run("index")
    assert code == 0, said
    return project.root.read_current().version


def listed(project: Project) -> list[str]:
    return [row["version"] for row in json.loads(project.run("versions", "--json")[1])]


@pytest.mark.parametrize("clock", CLOCKS)
def test_the_version_before_is_kept_and_rolled_back_to(project: Project, monkeypatch, clock) -> None:
    wrong = CLOCKS[clock]
    first = index_at(project, monkeypatch, wrong, "first")
    assert listed(project)[-1] == first
    second = index_at(project, monkeypatch, wrong - timedelta(hours=1), "second")
    assert listed(project) == [first, second], "retention keeps two: the current one and the one before it"
    code, said = project.run("rollback")
    assert (code, project.root.read_current().version) == (0, first), said
    third = index_at(project, monkeypatch, NOW, "third")
    assert listed(project) == [second, third]
    fourth = index_at(project, monkeypatch, NOW + timedelta(hours=1), "fourth")
    assert listed(project) == [third, fourth], "the clock was put right"
    assert project.run("prune", "--keep", "2")[0] == 0
    assert listed(project) == [third, fourth]
    assert project.run("rollback")[0] == 0
    assert project.root.read_current().version == third


def test_the_digest_knows_nothing_of_clock_and_number(project: Project, monkeypatch) -> None:
    index_at(project, monkeypatch, NOW, "first")
    held = project.digest()
    for when in CLOCKS.values():
        monkeypatch.setattr(version_manifest, "time_of_build", lambda when=when: when)
        code, said = project.run("index", "--force")
        assert code == 0, said
        assert project.digest() == held
