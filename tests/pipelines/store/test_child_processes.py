"""Programs that a command starts end with it, whichever signal ends the command."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codequarry.pipelines.store import child_processes
from codequarry.pipelines.store.child_processes import ending_groups, start_group, stop_group
from tests.pipelines.conftest import MAIN
from tests.pipelines.repositories import commit, shim


@pytest.fixture(autouse=True)
def nobody_handles_the_signals() -> Iterator[None]:
    """Other tests of the process leave handlers behind, such as Dagster's, which stay as a caller's do."""
    before = {number: signal.getsignal(number) for number in child_processes._DEFAULTS}
    for number, handler in child_processes._DEFAULTS.items():
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
    assert process.pid not in child_processes._groups.running


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
