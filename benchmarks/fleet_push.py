"""One push into a fleet of small bundles beside one bundle of all: CPU time, and bytes that travel."""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.corpus import CODEQUARRY, HOME, LARGE, children_cpu, package_folder
from benchmarks.report import Figure, at_most, print_figures

REPOSITORIES = (*LARGE, "pydantic", "uvicorn", "click", "jinja2", "sqlalchemy")
_PUSHED = ("starlette", "rich", "fastmcp")
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.invalid")
_SIZES = {"fleet": 1, "one bundle": 10_000_000}
"""Chunks that a bundle is filled to: each repository alone, or all together."""


def run() -> None:
    """Measure and print."""
    print_figures(f"A push to one of {len(REPOSITORIES)} repositories in a fleet", list(_figures()))


def _figures() -> Iterable[Figure]:
    home = HOME / "fleet_push"
    shutil.rmtree(home, ignore_errors=True)
    for name in REPOSITORIES:
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(package_folder(name), home / name, ignore=ignored)
        subprocess.run([*_GIT, "init", "--quiet"], cwd=home / name, check=True)
        _commit(home / name)
    for kind, size in _SIZES.items():
        _write_settings(home, kind, size)
        cpu, seconds, sent, said = _build(home, kind, "--full")
        yield Figure(f"{kind}: what", said)
        yield Figure(f"{kind}: first build", f"{cpu:.1f} CPU-s, {seconds:.1f} s, {sent:.1f} MB travel")
    costs: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for number, name in enumerate(_PUSHED):
        files = sorted((home / name).rglob("*.py"), key=lambda file: (file.stat().st_size, file))
        file = files[len(files) // 2]
        for mode in ("--delta", "--full"):
            file.write_text(file.read_text() + f"\n\ndef added_{number}{mode.count('d')}(value):\n    return value\n")
            _commit(home / name)
            for kind in _SIZES:
                costs.setdefault((kind, mode), []).append(_build(home, kind, mode)[:3])
    for (kind, mode), measured in costs.items():
        cpu, seconds, sent = (statistics.median(column) for column in zip(*measured, strict=True))
        yield Figure(f"{kind}, {mode}: a push, median", f"{cpu:.2f} CPU-s, {seconds:.2f} s")
        name = f"{kind}, {mode}: bytes that travel, median"
        yield at_most(name, sent, 3, "MB", digits=2) if kind == "fleet" else Figure(name, f"{sent:.2f} MB")
    cpu, seconds, _, _ = _build(home, "fleet", "--delta")
    yield Figure("fleet: a build without a push", f"{cpu:.2f} CPU-s, {seconds:.2f} s, nothing travels")


def _write_settings(home: Path, kind: str, size: int) -> None:
    listed = ", ".join(f'{{ path = "{name}", ref = "HEAD" }}' for name in REPOSITORIES)
    (home / f"{kind}.toml").write_text(
        f"[sources]\nrepositories = [{listed}]\n[scip]\nenabled = false\n[retrieval]\nenabled = false\n"
        f'[paths]\nstore = "{kind}/store"\n[fleet]\nurl = "file://{home}/{kind}/shared"\nfolder = "{kind}/here"\n'
        f"bundle_chunks = {size}\nbundle_chunks_max = {size}\n"
    )


def _build(home: Path, kind: str, mode: str) -> tuple[float, float, float, str]:
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


def _commit(repository: Path) -> None:
    subprocess.run([*_GIT, "add", "--all", "--force"], cwd=repository, check=True)
    subprocess.run([*_GIT, "commit", "--quiet", "-m", "change"], cwd=repository, check=True)
