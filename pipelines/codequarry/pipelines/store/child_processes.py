"""Programs that this process starts, each the leader of a process group that ends with it.

A signal that ends a program does not reach the process groups it started: a fetch or an indexer would go on uselessly.
So the commands that start them end the groups first, and then themselves, by the signal they got. SIGKILL cannot be
handled; a program that reads from or writes to this process then ends by its closed pipe.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_DEFAULTS = {
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
def ending_groups() -> Iterator[None]:
    """End all groups when the block ends, or when a signal ends this process; for the main thread."""
    previous = {number: signal.getsignal(number) for number in _DEFAULTS}
    for number, handler in previous.items():
        if handler == _DEFAULTS[number]:  # handlers of `nohup` and of callers stay
            signal.signal(number, _end)
    try:
        yield
    finally:
        _kill_all()
        for number, handler in previous.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    if _groups.starting:
        _groups.postponed = number
    elif number == signal.SIGINT:
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
