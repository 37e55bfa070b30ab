"""F1, F2: the publisher is killed; what is current is old or new, whole, and the next run puts everything right."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.conftest import LAYERED
from tests.faults.scenes.moving import Moving
from tests.faults.scenes.scene import NEW, OLD, Scene

PROJECT = Path(__file__).resolve().parents[3]


def sweep(template: Scene, scratch: Path, kind: str, number: int, what: str = "publish") -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.scenes.sweep", what, str(template.base), str(scratch), kind, str(number)],
        cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_killed_at_some_calls(template: Scene, tmp_path: Path) -> None:
    outcome = sweep(template, tmp_path, "kill", 5)
    assert outcome["calls"] > 60
    assert outcome[OLD] > 5 and outcome[NEW] > 3


@pytest.mark.faults_long
def test_killed_at_every_call(template: Scene, tmp_path: Path) -> None:
    outcome = sweep(template, tmp_path, "kill", 1)
    assert outcome[OLD] + outcome[NEW] == outcome["calls"]


def test_killed_at_some_random_times_under_a_reader(template: Scene, tmp_path: Path) -> None:
    outcome = sweep(template, tmp_path, "random", 10)
    assert outcome["reads"] >= 10


@pytest.mark.faults_long
def test_killed_at_200_random_times_under_a_reader(template: Scene, tmp_path: Path) -> None:
    outcome = sweep(template, tmp_path, "random", 200)
    assert outcome["reads"] >= 200
    assert outcome[OLD] > 0 and outcome[NEW] > 0


@pytest.mark.parametrize("what", ["import", "add"])
def test_an_import_killed_at_some_calls(moving_template: Moving, tmp_path: Path, what: str) -> None:
    outcome = sweep(moving_template, tmp_path, "kill", 9, what)
    assert outcome["calls"] > 100
    assert outcome[OLD] > 5 and outcome[NEW] > 0


@pytest.mark.faults_long
@pytest.mark.parametrize("what", ["import", "add"])
def test_an_import_killed_at_every_call(moving_template: Moving, tmp_path: Path, what: str) -> None:
    outcome = sweep(moving_template, tmp_path, "kill", 1, what)
    assert outcome[OLD] + outcome[NEW] == outcome["calls"]


def test_an_import_killed_at_some_random_times_under_a_reader(moving_template: Moving, tmp_path: Path) -> None:
    outcome = sweep(moving_template, tmp_path, "random", 10, "import")
    assert outcome["reads"] >= 10


@pytest.mark.parametrize("kind", LAYERED)
def test_a_delta_killed_at_some_calls(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    template, _, what = LAYERED[kind]
    outcome = sweep(request.getfixturevalue(template), tmp_path, "kill", 61, what)
    assert outcome["calls"] > 100
    assert outcome[OLD] > 1 and outcome[NEW] > 0


@pytest.mark.faults_long
@pytest.mark.parametrize("kind", LAYERED)
def test_a_delta_killed_at_every_call(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    template, _, what = LAYERED[kind]
    outcome = sweep(request.getfixturevalue(template), tmp_path, "kill", 1, what)
    assert outcome[OLD] + outcome[NEW] == outcome["calls"]


@pytest.mark.faults_long
@pytest.mark.parametrize("kind", ["delta", "ref", "archive with base"])
def test_a_delta_killed_at_random_times_under_a_reader(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    template, _, what = LAYERED[kind]
    outcome = sweep(request.getfixturevalue(template), tmp_path, "random", 60, what)
    assert outcome["reads"] >= 60
    assert outcome[OLD] > 0 and outcome[NEW] > 0
