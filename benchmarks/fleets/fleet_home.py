"""Repositories, settings and builds of a fleet on this machine, for benchmarks of fleets."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.corpus import CODEQUARRY, children_cpu, package_folder

_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.invalid")
_LIMIT_S = 300.0
"""Seconds after which what does not come ends the benchmark."""


def make_repositories(home: Path, packages: Sequence[str]) -> None:
    """Make a git repository of each installed package, below ``repositories``."""
    for name in packages:
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(package_folder(name), home / "repositories" / name, ignore=ignored)
        subprocess.run([*_GIT, "init", "--quiet"], cwd=home / "repositories" / name, check=True)
        commit_all(home / "repositories" / name)


def commit_all(repository: Path) -> None:
    """Commit everything in the work tree."""
    subprocess.run([*_GIT, "add", "--all", "--force"], cwd=repository, check=True)
    subprocess.run([*_GIT, "commit", "--quiet", "-m", "change"], cwd=repository, check=True)


def write_settings(home: Path, kind: str, packages: Sequence[str], chunks: int) -> None:
    """Write the settings of a fleet of these repositories into ``KIND.toml``.

    Args:
        home: Folder of the repositories and of the fleet.
        kind: Name of the fleet.
        packages: Names of the repositories.
        chunks: Chunks that a bundle is filled to.
    """
    listed = ", ".join(f'{{ path = "repositories/{name}", ref = "HEAD" }}' for name in packages)
    (home / f"{kind}.toml").write_text(
        f"[sources]\nrepositories = [{listed}]\n[scip]\nenabled = false\n[retrieval]\nenabled = false\n"
        f'[paths]\nstore = "{kind}/store"\n[fleet]\nurl = "file://{home}/{kind}/shared"\nfolder = "{kind}/here"\n'
        f"bundle_chunks = {chunks}\nbundle_chunks_max = {chunks}\n"
    )


def build_fleet(home: Path, kind: str, mode: str) -> tuple[float, float, float, str]:
    """Return CPU seconds, seconds, megabytes that travelled and the closing line of a build."""
    before, started = children_cpu(), time.perf_counter()
    done = subprocess.run(
        [*CODEQUARRY, "fleet", "build", mode, "--settings", f"{kind}.toml"],
        cwd=home, check=True, capture_output=True, text=True,
    )  # fmt: skip
    last = done.stderr.strip().splitlines()[-1]
    sent = re.search(r"([\d.]+) MB travelled", last)
    assert sent is not None, last
    cost = (children_cpu() - before, time.perf_counter() - started, float(sent[1]))
    return *cost, last.partition(": ")[2].partition(";")[0]


def start(command: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a program that says nothing."""
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for(condition: Callable[[], bool], every_s: float = 0.1) -> None:
    """Wait until something is so.

    Raises:
        SystemExit: It was not for five minutes.
    """
    ends = time.monotonic() + _LIMIT_S
    while not condition():
        if time.monotonic() > ends:
            raise SystemExit(f"a program did not get ready within {_LIMIT_S:.0f} s")
        time.sleep(every_s)
