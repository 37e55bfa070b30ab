"""Limits of processes hold on Linux and elsewhere; programs that a command starts end with it."""

from __future__ import annotations

import os
import resource
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codequarry.pipelines.store import processes
from codequarry.pipelines.store.processes import ending_groups, limit_memory, resident_bytes, start_group, stop_group
from codequarry.pipelines.syntax import workers as chunk_workers
from codequarry.pipelines.syntax.workers import chunk_files
from codequarry.schemas.settings.load import ChunkingSettings
from tests.machine import OTHER_SYSTEMS, hidden, needs_address_limit, needs_proc
from tests.pipelines.conftest import MAIN
from tests.pipelines.repositories import commit, shim

LIMITED = """
from codequarry.pipelines.store.processes import limit_memory
print(limit_memory(128 << 20))
try:
    bytearray(512 << 20)
except MemoryError:
    print("refused")
"""


def said(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


@needs_address_limit
def test_a_process_gets_no_more_memory_than_its_limit() -> None:
    assert said(LIMITED) == ["True", "refused"]


def test_where_there_is_no_limit_or_it_is_refused_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "setrlimit", lambda *_: (_ for _ in ()).throw(ValueError("above the maximum")))
    assert not limit_memory(1 << 30)
    monkeypatch.delattr(resource, "RLIMIT_AS", raising=False)
    assert not limit_memory(1 << 30)


@needs_proc
def test_memory_is_read_of_proc() -> None:
    assert resident_bytes(os.getpid()) > 10 << 20


@pytest.mark.skipif(shutil.which("ps") is None, reason="ps is not installed")
def test_memory_is_told_by_ps() -> None:
    assert processes._resident_by_ps(os.getpid()) > 10 << 20


def test_memory_that_nobody_tells_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert processes._resident_by_ps(os.getpid()) == 0
    assert processes._resident_by_ps(1 << 30) == 0


@pytest.mark.slow
@pytest.mark.skipif(hidden() and shutil.which("ps") is None, reason="neither /proc nor ps tells memory here")
def test_a_worker_without_a_limit_is_stopped_for_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS, where the system takes no limit: the file costs its own syntax."""
    monkeypatch.setenv("PYTHONPATH", str(OTHER_SYSTEMS))
    monkeypatch.setattr(chunk_workers, "_WATCHED_BYTES", 300 << 20)
    monkeypatch.setattr(chunk_workers, "_LOOK_S", 0.02)
    if not hidden():  # a worker that has ended is not looked for a second time
        monkeypatch.setattr(processes, "_resident_by_ps", lambda _: 0)
    files = [("bomb.java", "java", b"a =>" * 5_000), ("small.py", "python", b"def f(): ...\n")]
    looked: list[int] = []
    real = chunk_workers.resident_bytes

    def look(pid: int) -> int:
        looked.append(real(pid))
        return looked[-1]

    monkeypatch.setattr(chunk_workers, "resident_bytes", look)
    bomb, small = chunk_files(files, ChunkingSettings(max_chars=400, merge_chars=150), workers=1)
    assert (bomb.fallen, bomb.made.parsed, bomb.made.fallback) == (False, False, "memory")
    assert small.made.parsed and not small.fallen
    assert 300 << 20 < max(looked) < 1 << 30


def test_a_group_is_ended_with_all_in_it(tmp_path: Path) -> None:
    marker = tmp_path / "alive"
    process = subprocess.Popen(["sh", "-c", f"sleep 60 & echo $! > {marker}.new; mv {marker}.new {marker}; wait"],
                               process_group=0)  # fmt: skip
    while not marker.exists():
        assert process.poll() is None
    stop_group(process)
    assert process.wait() == -signal.SIGKILL
    stop_group(process)


def test_a_group_of_the_dead_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS refuses the signal where all that is left of the group has ended."""
    process = subprocess.Popen(["sleep", "60"], process_group=0)

    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "killpg", refused)
    stop_group(process)
    assert process.wait() == -signal.SIGKILL


@pytest.fixture(autouse=True)
def nobody_handles_the_signals() -> Iterator[None]:
    """Other tests of the process leave handlers behind, such as Dagster's, which stay as a caller's do."""
    before = {number: signal.getsignal(number) for number in processes._DEFAULT_HANDLERS}
    for number, handler in processes._DEFAULT_HANDLERS.items():
        signal.signal(number, handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def wait_for_end(descriptor: int) -> bytes:
    """Read a pipe until nobody holds its other end."""
    received = b""
    while select.select([descriptor], [], [], 60.0)[0]:
        if not (block := os.read(descriptor, 4096)):
            return received
        received += block
    raise AssertionError("a process still holds the pipe")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["census", "index"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_git_ends_with_the_command_that_started_it(tmp_path: Path, verb: str, number: signal.Signals) -> None:
    """git and what it started hold a pipe, which ends when the last of them has."""
    commit(tmp_path / "repo", {"a.py": "x"})
    os.mkfifo(tmp_path / "pipe")
    script = f'case "$*" in *ls-tree*) exec 9>{tmp_path}/pipe; echo x >&9; sleep 600;; esac; exec $REAL "$@"'
    path = shim(tmp_path / "bin", "git", script)
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    command = subprocess.Popen(
        [sys.executable, "-c", MAIN, verb, str(tmp_path / "repo")], cwd=tmp_path, env={**os.environ, "PATH": path},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with command:
        while not select.select([reader], [], [], 60.0)[0] or not os.read(reader, 2):
            assert command.poll() is None
        command.send_signal(number)
        status = command.wait(60)
    assert wait_for_end(reader) == b""
    assert status in ((-number,) if number != signal.SIGINT else (-number, 1, 130))
    os.close(reader)


def test_a_signal_while_a_program_is_being_started_waits_until_it_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _pid, number: sent.append(number))

    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(["sleep", "600"], start_new_session=True)
        signal.raise_signal(signal.SIGTERM)
        assert not sent
        return process

    with ending_groups():
        process = start_group(start)
        assert sent == [signal.SIGTERM]
        signal.raise_signal(signal.SIGTERM)  # as the one that was sent again
        assert process.wait(60) == -signal.SIGKILL
    stop_group(process)
    assert process.pid not in processes._groups.running


def test_an_interrupt_while_a_program_is_being_started_leaves_none_behind() -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "600"], start_new_session=True))
        signal.raise_signal(signal.SIGINT)
        return started[0]

    with pytest.raises(KeyboardInterrupt), ending_groups():
        start_group(start)
    assert started[0].wait(60) == -signal.SIGKILL


def test_handlers_of_a_caller_stay() -> None:
    previous = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with ending_groups():
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, previous)
