"""Abilities of the machine that tests ask for, or are skipped and say why; and the time that work takes on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

HIDE = "CODEQUARRY_TESTS_HIDE_LINUX"
"""Set to 1, the tests run as on a system that is not Linux."""
OTHER_SYSTEMS = Path(__file__).parent / "other_systems"
"""To be on PYTHONPATH of a process that is to see nothing of Linux."""


def hidden() -> bool:
    """Tell whether Linux is hidden from this run."""
    return os.environ.get(HIDE) == "1"


needs_proc = pytest.mark.skipif(hidden() or not Path("/proc/self/status").exists(), reason="there is no /proc here")


def bounds_memory() -> bool:
    """Tell whether the system bounds the address space of a process."""
    return not hidden() and sys.platform != "darwin"


needs_address_limit = pytest.mark.skipif(not bounds_memory(), reason="the address space has no limit here")


def folder_in_memory(least: int = 8 << 30) -> str | None:
    """Return a file system in memory that has ``least`` bytes left, or None.

    Tests write some gigabytes and sync every small file of every version that they build: on a disk that is a sixth of
    their CPU time and a third of the wait.
    """
    folder = Path("/dev/shm")
    if hidden() or not os.access(folder, os.W_OK):
        return None
    meminfo = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(meminfo["MemAvailable"].split()[0]) * 1024
    return str(folder) if min(available, shutil.disk_usage(folder).free) >= least else None


def hide_linux() -> None:
    """Hide it from this process and from those it starts."""
    sys.path.insert(0, str(OTHER_SYSTEMS))
    sys.modules.pop("sitecustomize", None)
    import sitecustomize  # noqa: F401 - importing it is what hides

    sys.path.remove(str(OTHER_SYSTEMS))
    os.environ |= without_linux()


def without_linux() -> dict[str, str]:
    """Environment of a process from which Linux is hidden."""
    paths = [str(OTHER_SYSTEMS), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def can_run(*command: str) -> bool:
    """Tell whether a program of Linux is here, not hidden, and may do what it is asked."""
    if hidden() or shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def can_mount(command: str, *arguments: str | Path) -> bool:
    """Tell whether a shell in namespaces of its own can do this. arguments: ``$1`` and on."""
    return can_run("unshare", "-rm", "sh", "-c", command, "sh", *map(str, arguments))


def least_cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of the fastest of three runs."""
    taken = []
    for _ in range(3):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return min(taken)
