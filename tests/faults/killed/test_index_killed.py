"""F1, F4, F5, F6 over a whole `codequarry index`: not the publish alone, but its C libraries, git and the store too."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from codequarry.schemas.bundle.layout import Current
from tests.faults.scenes.project import Project, build_layered
from tests.faults.scenes.traced import Outcome, Point, points, strace_works, tampered

pytestmark = [
    pytest.mark.skipif(not strace_works(), reason="strace is not installed, or may not trace here"),
]
LONG = pytest.mark.faults_long
KILL = "signal=SIGKILL"
ERRORS = [
    *(("write", f"error={error}") for error in ("ENOSPC", "EIO", "EINTR")),
    ("write", "retval=0"),  # nothing was taken, and no reason given
    *(("pwrite64", f"error={error}") for error in ("EIO", "ENOSPC")),
    *((call, "error=EIO") for call in ("fsync", "fdatasync", "rename", "renameat", "unlink", "ftruncate")),
    *((call, "error=ENOSPC") for call in ("mkdir", "linkat", "sendfile", "symlink")),
]
Copies = Callable[[], Project]


@pytest.fixture(scope="module")
def calls(project_template: Project, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Point]]:
    """Every call with which a run changes the bundle root, the work folder and the store, by kind."""
    folder = tmp_path_factory.mktemp("counted")
    project, found = project_template.copy(folder / "project"), dict[str, list[Point]]()
    for point in points(project.command("index"), folder / "strace", project.written, cwd=project.base):
        found.setdefault(point.call, []).append(point)
    assert {"write", "pwrite64", "fsync", "fdatasync", "rename", "linkat", "mkdir", "unlinkat"} <= found.keys()
    return found


@pytest.fixture
def copies(project_template: Project, tmp_path: Path) -> Copies:
    """A fresh copy of the project at every call."""
    numbers = count()
    return lambda: project_template.copy(tmp_path / f"copy-{next(numbers)}")


@pytest.fixture(scope="module", params=[pytest.param(False, id="delta"), pytest.param(True, id="ref")])
def layered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, str]:
    """A project on the brink of a delta version, and the digest of what the run leaves."""
    folder = tmp_path_factory.mktemp("layered")
    project = build_layered(folder, ref=request.param)
    done = project.copy(folder / "done")
    assert done.run(*done.indexing)[0] == 0
    assert done.digest() != project.digest()
    return project, done.digest()


@LONG
def test_a_run_for_a_delta_killed_or_refused_at_many_calls(
    layered: tuple[Project, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project, expected = layered
    numbers, found = count(), dict[str, list[Point]]()
    counted = project.copy(tmp_path / "counted")
    for point in points(counted.command(*counted.indexing), tmp_path / "strace", counted.written, cwd=counted.base):
        found.setdefault(point.call, []).append(point)
    chosen = [(point, KILL) for calls in found.values() for point in spread(calls, 3)]
    chosen += [(point, what) for call, what in ERRORS for point in spread(found.get(call, []), 1, main=True)]
    ended = all_disturbed(lambda: project.copy(tmp_path / f"copy-{next(numbers)}"), chosen, expected)
    report(capsys, f"disturbed {len(chosen)} of {sum(map(len, found.values())):,} calls", ended)
    assert ended["killed, old current"] > 5
    assert ended["refused, old current"] > 2


def spread(found: list[Point], number: int, *, main: bool = False) -> Iterator[Point]:
    """Some of the calls of a kind, as far apart as they can be. main: only of those that are met for sure."""
    found = [point for point in found if point.main or not main]
    return (found[len(found) * (2 * place + 1) // (2 * number)] for place in range(min(number, len(found))))


def disturbed(project: Project, point: Point, what: str) -> tuple[Project, list[Current], Outcome]:
    """Tamper with a call of a run. Returns what was served before, and how the run ended."""
    before = project.served()
    return (
        project,
        before,
        tampered(project.command(*project.indexing), project.base / "strace", point, what, cwd=project.base),
    )


def put_right(project: Project, before: list[Current], outcome: Outcome, expected: str) -> str:
    """Check what a disturbed run said and left, and let the next run put everything right.

    expected: digest of the version that the next run must leave.

    Returns how it ended, and whether the old or the new version was current then.
    """
    changed = project.check_current() != before
    assert "Traceback" not in outcome.said, outcome
    if outcome.returncode == 0:
        assert changed, outcome
    elif outcome.returncode == 2:
        assert "error: " in outcome.said and not changed, outcome
    else:
        assert outcome.returncode == -9 and outcome.what == KILL, outcome

    code, said = project.run(*project.indexing)
    assert code == 0, f"{outcome}\n{said}"
    assert project.digest() == expected, outcome
    project.check_healthy()
    ended = {0: "done", 2: "refused", -9: "killed"}[outcome.returncode]
    return f"{ended}, {'new' if changed else 'old'} current"


def all_disturbed(copies: Copies, chosen: list[tuple[Point, str]], expected: str) -> Counter[str]:
    """How runs ended that were tampered with, each of a copy of the project; one runs while the last one is checked."""
    with ThreadPoolExecutor(1) as pool:
        runs = pool.map(lambda one: disturbed(copies(), *one), chosen)
        return Counter(put_right(*run, expected) for run in runs)


def test_a_run_killed_before_and_behind_its_flip(
    calls: dict[str, list[Point]], copies: Copies, changed_digest: str
) -> None:
    chosen = [point for call in ("rename", "unlinkat") for point in spread(calls[call], 1, main=True)]
    ended = [put_right(*disturbed(copies(), point, KILL), changed_digest) for point in chosen]
    assert ended == ["killed, old current", "killed, new current"]


@LONG
def test_a_run_killed_at_many_calls_of_every_kind(
    calls: dict[str, list[Point]], copies: Copies, changed_digest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    number = {"write": 12, "rename": 4, "unlinkat": 4}
    chosen = [(point, KILL) for call, found in calls.items() for point in spread(found, number.get(call, 2))]
    ended = all_disturbed(copies, chosen, changed_digest)
    report(capsys, f"killed at {len(chosen)} of {sum(map(len, calls.values())):,} calls", ended)
    # Threads and children race: now and then another process is met, or none.
    assert ended["killed, old current"] > len(chosen) / 2
    assert ended["killed, new current"] > 1


def test_a_disk_that_refuses_a_write_or_a_sync_stops_the_run_with_the_reason(
    calls: dict[str, list[Point]], copies: Copies, changed_digest: str
) -> None:
    for call, what in (("write", "error=ENOSPC"), ("fsync", "error=EIO")):
        (point,) = spread(calls[call], 1, main=True)
        assert put_right(*disturbed(copies(), point, what), changed_digest) == "refused, old current"


@LONG
def test_a_disk_that_refuses_calls_of_every_kind(
    calls: dict[str, list[Point]], copies: Copies, changed_digest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = [(point, what) for call, what in ERRORS for point in spread(calls.get(call, []), 2, main=True)]
    ended = all_disturbed(copies, chosen, changed_digest)
    report(capsys, f"refused {len(chosen)} calls", ended)
    assert ended["refused, old current"] > len(chosen) / 3
    assert ended["done, new current"] > 0, "a link that cannot be made is a copy"


def report(capsys: pytest.CaptureFixture[str], what: str, ended: Counter[str]) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{what}: {', '.join(f'{number} {how}' for how, number in sorted(ended.items()))}\n")
