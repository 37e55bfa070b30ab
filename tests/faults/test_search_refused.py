"""F5, F12 for a reader: whatever call that reads the bundle is refused, a search is right or says what is wrong."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.scenes.project import Project
from tests.faults.scenes.traced import Point, points, strace_works, tampered

pytestmark = pytest.mark.skipif(not strace_works(), reason="strace is not installed, or may not trace here")
QUERY = ("search", "multiply", "--json")
READING = {"read": "EIO", "pread64": "EIO", "openat": "EMFILE", "mmap": "ENOMEM"}


@pytest.fixture(scope="module")
def reads(project_template: Project, tmp_path_factory: pytest.TempPathFactory) -> list[Point]:
    """Every call with which the main thread of a search opens, reads or maps a file of the bundle root."""
    log = tmp_path_factory.mktemp("reads") / "strace"
    command, base = project_template.command(*QUERY), project_template.base
    found = points(command, log, [project_template.root.path], cwd=base, calls=READING)
    return [point for point in found if point.main]


def answered(project: Project, point: Point, log: Path, golden: list[str]) -> str:
    """Refuse a call of a search; returns how that ended."""
    error = f"error={READING[point.call]}"
    outcome = tampered(project.command(*QUERY), log, point, error, cwd=project.base, others=True)
    if f"{project.root.path}/" not in outcome.met:
        return "another call"  # memory is mapped a different number of times from run to run, by libraries being loaded
    assert "Traceback" not in outcome.said, outcome
    if outcome.returncode == 2:
        assert "error: " in outcome.said and not outcome.printed, outcome
        return "refused"
    assert outcome.returncode == 0, outcome
    answer = json.loads(outcome.printed)
    if answer["limits"]:
        return "said its limits"
    assert [row["id"] for row in answer["results"]] == golden, outcome
    return "right"


def search(project: Project) -> list[str]:
    code, printed = project.run(*QUERY)
    assert code == 0, printed
    return [row["id"] for row in json.loads(printed)["results"]]


def test_a_search_whose_reads_are_refused_now_and_then(
    project_template: Project, reads: list[Point], tmp_path: Path
) -> None:
    golden = search(project_template)
    for call in READING:
        found = [point for point in reads if point.call == call]
        answered(project_template, found[len(found) // 2], tmp_path / "strace", golden)
    assert search(project_template) == golden


@pytest.mark.faults_long
def test_a_search_of_which_any_one_read_is_refused(
    project_template: Project, reads: list[Point], tmp_path: Path
) -> None:
    golden = search(project_template)
    ended = Counter(answered(project_template, point, tmp_path / "strace", golden) for point in reads)
    assert {"refused", "said its limits"} <= ended.keys()
    assert ended["another call"] <= len(reads) // 4, ended
    assert search(project_template) == golden
