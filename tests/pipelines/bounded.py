"""The command line with bounds on its memory and time, for input that is made to take all of both."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

from tests.machine import bounds_memory
from tests.pipelines.conftest import MAIN


def run_bounded(
    folder: Path, *arguments: str | Path, memory_mb: int = 2_048, cpu_s: int = 60, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run codequarry in a folder; a process that takes more is ended by a signal.

    memory_mb: address space, where the system bounds that; git, which it starts, has as much.
    cpu_s: CPU seconds of each process; how long it takes says more about what else the machine does.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        if bounds_memory():
            resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))

    folder.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-c", MAIN, *map(str, arguments)],
        cwd=folder, env={**os.environ, "COLUMNS": "100", **environment}, capture_output=True, text=True,
        check=False, preexec_fn=limit,
    )  # fmt: skip
