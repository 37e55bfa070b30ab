"""Units of work: the same results in one process and in several, and errors, kills and ends as in one."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import suppress
from math import sqrt
from pathlib import Path

import pytest

from codequarry.pipelines.compute import unit_processes, work_units
from codequarry.pipelines.compute.unit_errors import describe_error, error_of
from codequarry.pipelines.compute.work_units import map_units, processes_for
from codequarry.schemas.errors import (
    CodequarryError,
    PublishError,
    ResourcesError,
    SourceError,
    SourceLimitError,
    UnavailableError,
)
from codequarry.schemas.settings.compute import ComputeSettings

_PATIENCE_S = 60.0


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes that are started; every one of them has ended behind the test."""
    found: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def start(*arguments, **options) -> subprocess.Popen[bytes]:
        found.append(real(*arguments, **options))
        return found[-1]

    monkeypatch.setattr(unit_processes.subprocess, "Popen", start)
    yield found
    assert all(process.poll() is not None for process in found)


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_results_come_in_the_order_of_the_items(processes: int, started: list[subprocess.Popen[bytes]]) -> None:
    shown: list[int] = []
    found = map_units(sqrt, iter(range(40)), 40, processes, shown.append)
    assert found == [sqrt(number) for number in range(40)]
    assert shown == list(range(1, 41))
    assert len(started) == processes - 1


def test_no_items_are_no_work() -> None:
    assert map_units(sqrt, [], 0, 1) == []


def test_what_another_process_raises_is_raised_here(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    kept, missing = (str(tmp_path / name) for name in ("kept", "missing"))
    Path(kept).write_text("")
    # The other process gets the first item.
    with pytest.raises(FileNotFoundError, match="missing") as caught:
        map_units(os.stat, [missing, kept], 2, 2)
    assert "_answer" in caught.value.__notes__[0]
    with pytest.raises(FileNotFoundError):
        map_units(os.stat, [kept, missing], 2, 2)


def pass_over(error: BaseException) -> BaseException:
    """What another process' error is in this one."""
    return error_of(json.loads(json.dumps(describe_error(error, "there"))))


class Odd(ValueError):
    """An error that this program does not know."""


class Panic(BaseException):
    """What a library in Rust raises."""


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), OSError, "[Errno 28] No space left on device"),
        (FileNotFoundError(errno.ENOENT, "No such file", "x"), FileNotFoundError, "[Errno 2] No such file: 'x'"),
        (OSError("cannot read"), OSError, "cannot read"),
        (MemoryError(), MemoryError, "MemoryError"),
        (Odd("odd"), ValueError, "odd"),
        (Panic("poisoned"), RuntimeError, "poisoned"),
        (SourceLimitError("too large", limit="max_files", suggestion="x"), SourceError, "too large; x"),
    ],
)
def test_an_error_passes_as_one_of_a_class_that_is_known(error: BaseException, kind: type, text: str) -> None:
    passed = pass_over(error)
    assert (type(passed), str(passed)) == (kind, text)
    assert passed.__notes__ == ["there"]


@pytest.mark.parametrize("kind", [PublishError, SourceError, UnavailableError, ResourcesError])
def test_errors_of_ours_pass_between_processes_whole(kind: type[CodequarryError]) -> None:
    error = pass_over(kind("it failed", suggestion="try again"))
    assert isinstance(error, CodequarryError)
    assert (type(error), error.message, error.suggestion) == (kind, "it failed", "try again")
    assert str(error) == "it failed; try again"


def test_the_units_of_a_killed_process_are_done_here(started: list[subprocess.Popen[bytes]]) -> None:
    def kill(_done: int) -> None:
        if started[0].poll() is None:
            started[0].kill()
            started[0].wait()

    assert map_units(sqrt, range(40), 40, 2, kill) == [sqrt(number) for number in range(40)]


def test_a_process_ends_with_the_one_that_is_killed() -> None:
    script = """
        import subprocess, time
        from codequarry.pipelines.compute.work_units import map_units
        real = subprocess.Popen
        def start(*arguments, **options):
            process = real(*arguments, **options)
            print(process.pid, flush=True)
            return process
        subprocess.Popen = start
        map_units(time.sleep, [600.0, 600.0], 2, 2)
    """
    main = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    assert main.stdout is not None
    other = int(main.stdout.readline())
    os.kill(other, 0)
    main.send_signal(signal.SIGKILL)
    main.communicate()
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        with suppress(ProcessLookupError):
            os.kill(other, 0)
            if _is_zombie(other):  # where nobody collects what lost its parent
                return
            time.sleep(0.01)
            continue
        return
    pytest.fail("the other process still runs")


def _is_zombie(pid: int) -> bool:
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout.strip().startswith("Z")


def test_as_many_processes_as_cores_and_work_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    free = ComputeSettings()
    monkeypatch.setattr(work_units, "available_cores", lambda: 4)
    assert [processes_for(32, work, free) for work in (0, 0.9, 1.9, 2, 3.5, 100)] == [1, 1, 1, 2, 3, 4]
    assert processes_for(2, 100, free) == 2
    monkeypatch.setattr(work_units, "available_cores", lambda: 64)
    assert processes_for(32, 100, free) == 8


def test_a_number_of_processes_is_taken_whatever_the_work_and_one_process_is_one() -> None:
    assert processes_for(32, 0, ComputeSettings(processes=3)) == 3
    assert processes_for(2, 100, ComputeSettings(processes=3)) == 2
    assert processes_for(32, 100, ComputeSettings(engine="in_process", processes=3)) == 1
