"""Resource limits of processes on Linux and on other systems.

Linux limits the address space: a process at its limit gets no more memory. macOS refuses that limit, so there the
process that waits for another checks its memory meanwhile.
"""

from __future__ import annotations

import resource
import subprocess
from contextlib import suppress

_UNKNOWN_BASE = 4 << 30
"""Address space that a process is assumed to reserve where it cannot be read."""
_PS_TIMEOUT_S = 5.0


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
