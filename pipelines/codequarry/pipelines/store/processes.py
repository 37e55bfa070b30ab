"""Processes: resource limits on Linux and on other systems, and programs that end with the process that started them.

Linux limits the address space: a process at its limit gets no more memory. macOS refuses that limit, so there the
process that waits for another checks its memory meanwhile.

Each program that this process starts is the leader of a process group. A signal that ends a program does not reach the
process groups it started: a fetch or an indexer would go on uselessly. So the commands that start them end the groups
first, and then themselves, by the signal they got. SIGKILL cannot be handled; a program that reads from or writes to
this process then ends by its closed pipe.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_UNKNOWN_BASE = 4 << 30
"""Address space that a process is assumed to reserve where it cannot be read."""
_PS_TIMEOUT_S = 5.0
_STARTING_LOOK_S = 0.002


def limit_memory(more_bytes: int) -> bool:
    """Limit the further memory that this process may take, and turn core files off.

    Libraries reserve far more address space than they touch, so the limit is relative to what is reserved now.

    Args:
        more_bytes: Bytes that the process may take beyond what it has reserved.

    Returns:
        False where the system has no such limit.
    """
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    kind = getattr(resource, "RLIMIT_AS", None)
    if kind is None:
        return False
    limit = _address_space() + more_bytes
    try:
        resource.setrlimit(kind, (limit, limit))
    except (OSError, ValueError):  # macOS: below what is reserved already
        return False
    return True


def limit_cpu_time(more_s: int) -> None:
    """Have this process ended by SIGXCPU after this many further seconds of CPU time."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(usage.ru_utime + usage.ru_stime) + more_s + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def resident_bytes(pid: int) -> int:
    """Return the memory that a process takes now; 0 when it cannot be read or the process has ended."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as stream:
            return int(stream.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return _resident_by_ps(pid)


def _address_space() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as stream:
            return int(stream.read().split()[0]) * resource.getpagesize()
    except OSError:
        return _UNKNOWN_BASE


def _resident_by_ps(pid: int) -> int:
    command = ["ps", "-o", "rss=", "-p", str(pid)]  # POSIX; in KiB
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PS_TIMEOUT_S, check=False)
        return int(done.stdout) << 10
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return 0


_DEFAULT_HANDLERS = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}
"""Default handlers of the signals that end a command."""


class _ProcessGroups:
    def __init__(self) -> None:
        self.running: set[int] = set()
        self.starting = 0
        """Programs that are being started and are not in `running` yet: a signal waits for them."""
        self.postponed = 0
        """The signal that waits; 0 for none."""
        self.ended = False
        """True when this process is about to end, and starts nothing any more."""
        self.interrupting = False
        """True when every signal that ends a command raises KeyboardInterrupt, as SIGINT does."""


_groups = _ProcessGroups()


def start_group(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Start a program that ends with this process.

    Args:
        start: Starts it as the leader of a process group; raises what `subprocess.Popen` does.

    Returns:
        The running program.
    """
    _groups.starting += 1
    try:
        if _groups.ended:
            raise SystemExit("this process is about to end")
        process = start()
        _groups.running.add(process.pid)
    finally:
        _groups.starting -= 1
        if _groups.postponed and not _groups.starting:
            number, _groups.postponed = _groups.postponed, 0
            os.kill(os.getpid(), number)
    return process


def stop_group(process: subprocess.Popen[bytes]) -> None:
    """End a program and its whole process group, including what outlived the program.

    Call it once for each program, right after its end.
    """
    _kill(process.pid)
    process.kill()
    _groups.running.discard(process.pid)


@contextmanager
def ending_groups(*, interrupting: bool = False) -> Iterator[None]:
    """End all groups when the block ends, or when a signal ends this process; for the main thread.

    Args:
        interrupting: SIGTERM and SIGHUP raise KeyboardInterrupt too, for a command that ends by itself.

    Yields:
        Nothing.
    """
    previous = {number: signal.getsignal(number) for number in _DEFAULT_HANDLERS}
    for number, handler in previous.items():
        if handler == _DEFAULT_HANDLERS[number]:  # handlers of `nohup` and of callers stay
            signal.signal(number, _end)
    before, _groups.interrupting = _groups.interrupting, interrupting
    try:
        yield
    finally:
        _groups.interrupting = before
        _kill_all()
        for number, handler in previous.items():
            signal.signal(number, handler)


def end_for_good() -> None:
    """End all groups and let nothing be started after them, for a thread that is about to end this process."""
    _groups.ended = True
    while _groups.starting:
        time.sleep(_STARTING_LOOK_S)
    _kill_all()


def _end(number: int, frame: FrameType | None) -> None:
    if _groups.starting:
        _groups.postponed = number
    elif number == signal.SIGINT or _groups.interrupting:
        signal.default_int_handler(number, frame)
    else:
        _kill_all()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _kill_all() -> None:
    while _groups.running:
        _kill(_groups.running.pop())


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS refuses when only zombies are left in a group
        os.killpg(group, signal.SIGKILL)
