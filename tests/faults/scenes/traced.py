"""A program under strace: the calls by which it, its libraries and its children change the disk, and one tampered with.

strace counts calls by kind and thread. Those of the main thread can be met exactly. For the others strace has to follow
all threads and children, and meets each that gets so far; threads race, and it may also be none. Where it follows, the
kernel stops the program at the calls in question and not at every one: a search takes a third of the time.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.machine import can_run

_FOLLOW = ("-f", "--seccomp-bpf")
CHANGING = (
    "write writev pwrite64 pwritev pwritev2 copy_file_range sendfile ftruncate truncate fallocate "
    "fsync fdatasync sync_file_range msync rename renameat renameat2 link linkat symlink symlinkat "
    "unlink unlinkat rmdir mkdir mkdirat chmod fchmod fchmodat"
).split()
_CALL = re.compile(r"(?:(\d+) +)?(\w+)\((.*)")


@dataclass(frozen=True)
class Point:
    """The n-th call of a kind that a thread makes."""

    call: str
    n: int
    main: bool
    """Whether it is the main thread's."""


@dataclass(frozen=True)
class Outcome:
    """How a program ended, and what it was doing when it was tampered with."""

    point: Point
    what: str
    returncode: int
    """Negative: the signal that killed it."""
    printed: str
    said: str
    """Its standard error."""
    met: str
    """The calls that were tampered with, as strace shows them."""


def strace_works() -> bool:
    return can_run("strace", "-qq", "true")


def traced(command: Sequence[str], log: Path, *options: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command under strace, which writes to a log."""
    strace = ["strace", "-y", "-qq", "-s", "0", "-o", str(log), *options]
    return subprocess.run([*strace, *command], cwd=cwd, capture_output=True, text=True, check=False)


def points(
    command: Sequence[str], log: Path, below: Iterable[Path], *, cwd: Path, calls: Iterable[str] = CHANGING
) -> list[Point]:
    """The calls that a command makes and that concern something below some folders, in order."""
    # A question mark: not every architecture has every call.
    done = traced(command, log, *_FOLLOW, "-e", "trace=" + ",".join(f"?{call}" for call in calls), cwd=cwd)
    assert done.returncode == 0, done.stderr
    lines = log.read_text(errors="replace").splitlines()
    main = lines[0].split()[0]
    folders, counts, found = tuple(f"{folder}/" for folder in below), Counter[tuple[str, str]](), dict[Point, None]()
    for line in lines:
        if match := _CALL.match(line):
            thread, call, arguments = match.groups()
            counts[thread, call] += 1
            if any(folder in arguments for folder in folders):
                found[Point(call, counts[thread, call], thread == main)] = None
    return list(found)


def tampered(command: Sequence[str], log: Path, point: Point, what: str, *, cwd: Path, others: bool = False) -> Outcome:
    """Run a command and tamper with one call.

    what: as strace wants it, `signal=SIGKILL`, `error=ENOSPC` or `retval=0`. others: where the call is the main
    thread's, another thread that makes as many may meet it too.
    """
    injection = f"inject={point.call}:{what}:when={point.n}"
    follow = () if point.main and not others else _FOLLOW
    done = traced(command, log, *follow, "-e", f"trace={point.call}", "-e", injection, cwd=cwd)
    calls = [line for line in log.read_text(errors="replace").splitlines() if _CALL.match(line)]
    met = [line for line in calls if "INJECTED" in line] or calls[-1:]
    return Outcome(point, what, done.returncode, done.stdout, done.stderr, " ".join(met))
