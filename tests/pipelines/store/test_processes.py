"""Bounds of processes hold where Linux's do not, and groups end."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from codequarry.pipelines.store import processes
from codequarry.pipelines.store.child_processes import stop_group
from codequarry.pipelines.store.processes import limit_memory, resident_bytes
from codequarry.pipelines.syntax import workers as chunk_workers
from codequarry.pipelines.syntax.workers import chunk_files
from codequarry.schemas.settings.load import ChunkingSettings
from tests.machine import OTHER_SYSTEMS, hidden, needs_address_limit, needs_proc

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
