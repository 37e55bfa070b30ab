"""A first index of several small repositories, in one process and in several, by turns.

The repositories are copies of installed packages. Each pair of runs starts with empty folders; ratios are of a pair, as
other programs on the machine disturb both.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Thread

from benchmarks.corpus import CODEQUARRY, HOME, package_folder
from benchmarks.report import Figure, at_most, print_figures

_HOME = HOME / "engines"
_PACKAGES = (
    "fastmcp", "mcp", "starlette", "rich", "anyio", "hypothesis", "alembic", "prompt_toolkit", "tornado", "pygments",
    "websockets", "cyclopts", "graphene", "griffe", "importlinter", "fsspec", "authlib", "jinja2", "click",
    "dagster_graphql", "grimp", "altair", "narwhals", "dns",
)  # fmt: skip
_PAIRS = 3
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class EngineRun:
    """A run and its cost."""

    wall_s: float
    cpu_s: float
    """CPU seconds of the run and of the processes it started and waited for."""
    peak_mb: float
    """Resident memory of the largest of its processes."""
    digest: str
    chunks: int


def run() -> None:
    """Measure and print."""
    shutil.rmtree(_HOME, ignore_errors=True)
    sources: list[str] = []
    for name in _PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(package_folder(name), _HOME / "corpus" / name, ignore=ignored)
        sources.append(str(_HOME / "corpus" / name))
    pairs = [(_indexed("in_process", sources), _indexed("processes", sources)) for _ in range(_PAIRS)]
    print_figures(f"First index of {len(sources)} repositories by engine, {_PAIRS} pairs", _figures(pairs))


def _figures(pairs: list[tuple[EngineRun, EngineRun]]) -> Iterable[Figure]:
    one, several = ([pair[place] for pair in pairs] for place in (0, 1))
    yield Figure("chunks", f"{one[0].chunks:,}")
    yield Figure("in_process, wall and CPU", _seconds(one))
    yield Figure("processes, wall and CPU", _seconds(several))
    yield at_most("wall / in_process's", median(b.wall_s / a.wall_s for a, b in pairs), 0.6, "times", 2)
    yield Figure("wall / in_process's, each pair", ", ".join(f"{b.wall_s / a.wall_s:.2f}" for a, b in pairs))
    yield Figure("CPU / in_process's", f"{median(b.cpu_s / a.cpu_s for a, b in pairs):.2f} times")
    yield at_most("memory of the largest process, in_process", max(each.peak_mb for each in one), 1200, "MB", 0)
    yield at_most("memory of the largest process, processes", max(each.peak_mb for each in several), 1200, "MB", 0)
    yield Figure("same digest", "yes" if len({each.digest for each in (*one, *several)}) == 1 else "NO")


def _seconds(runs: list[EngineRun]) -> str:
    return f"{median(each.wall_s for each in runs):.1f} s, {median(each.cpu_s for each in runs):.1f} s"


def _indexed(engine: str, sources: list[str]) -> EngineRun:
    """Index into empty folders in a process of its own."""
    home = _HOME / engine
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},  # as installed
        "CODEQUARRY__PATHS__STORE": str(home / "store"),
        "CODEQUARRY__PATHS__WORK": str(home / "work"),
        "CODEQUARRY__COMPUTE__ENGINE": engine,
    }
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(
        [*CODEQUARRY, "index", *sources, "--root", str(home / "bundles")],
        cwd=home, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    peaks: dict[int, float] = {}
    watcher = Thread(target=_watch, args=(process, peaks))
    watcher.start()
    output, _ = process.communicate()
    wall_s, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    watcher.join()
    if process.returncode:
        sys.exit(f"codequarry index failed with the engine {engine}")
    manifest = json.loads((Path(output.strip().splitlines()[-1]) / "manifest.json").read_text(encoding="utf-8"))
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return EngineRun(wall_s, cpu_s, max(peaks.values()), manifest["digest"], manifest["counts"]["chunks"])


def _watch(process: subprocess.Popen[str], peaks: dict[int, float]) -> None:
    """Note the peak of a process and of all below it; the kernel keeps each until the process ends."""
    while process.poll() is None:
        waiting = [process.pid]
        while waiting:
            each = waiting.pop()
            try:
                status = Path(f"/proc/{each}/status").read_text(encoding="ascii")
                peaks[each] = int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6
                for task in Path(f"/proc/{each}/task").iterdir():
                    waiting += map(int, (task / "children").read_text(encoding="ascii").split())
            except (OSError, IndexError):  # it has just ended
                continue
        time.sleep(_LOOK_S)
