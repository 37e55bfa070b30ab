"""Delta versions beside complete ones: what a commit to one file costs, and what a search over both versions costs.

Each commit is published twice, first as a delta version and then as a complete one of the same tree, by a process each.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.corpus import CODEQUARRY, HOME, LARGE, PACKAGES, children_cpu, package_folder
from benchmarks.report import Figure, at_most, print_figures
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.schemas.wire.symbols import DefinitionRequest, ReferencesRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.files.integrity import read_manifest

COMMITS = 5
CORPORA = {"small": PACKAGES, "large": LARGE}
"""Installed packages of each corpus."""
QUERIES = (
    "where are sessions removed when they end", "parse_headers", "how is a request authenticated",
    "close the connection",
    "json schema of a tool", "StaticFiles", "retry after a failure", "def __init__(self",
)  # fmt: skip
_ROUNDS = 12
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.invalid")


def run() -> None:
    """Measure and print."""
    for name, packages in CORPORA.items():
        print_figures(
            f"Delta versions, corpus {name}: {COMMITS} commits to one file each", list(_figures(name, packages))
        )


def _figures(name: str, packages: Sequence[str]) -> Iterable[Figure]:
    home = HOME / "deltas" / name
    shutil.rmtree(home, ignore_errors=True)
    repository = home / "app"
    for package in packages:
        shutil.copytree(package_folder(package), repository / package, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([*_GIT, "init", "--quiet"], cwd=repository, check=True)
    _commit(repository)
    first, version = _indexed(home)
    files = sorted(repository.rglob("*.py"), key=lambda file: (file.stat().st_size, file))
    costs: dict[str, list[float]] = {"--delta": [], "--full": []}
    written: dict[str, list[int]] = {"--delta": [], "--full": []}
    for number in range(COMMITS):
        file = files[(2 * number + 1) * len(files) // (2 * COMMITS)]
        file.write_text(file.read_text() + f"\n\ndef added_by_commit_{number}(value):\n    return value + {number}\n")
        _commit(repository)
        for mode in costs:
            cost, version = _indexed(home, mode)
            assert (read_manifest_of(version).stack is not None) == (mode == "--delta"), version
            costs[mode].append(cost)
            written[mode].append(sum(one.stat().st_size for one in version.rglob("*") if one.stat().st_nlink == 1))
    delta, full = (statistics.median(costs[mode]) for mode in costs)
    yield Figure("chunks of the repository", f"{read_manifest_of(version).counts.chunks:,}")
    yield Figure("first index", f"{first:.1f} CPU-s")
    yield Figure("a commit as a complete version, median", f"{full:.2f} CPU-s")
    yield at_most("a commit as a delta version, median", delta, 1.2, "CPU-s")
    yield Figure("delta / complete", f"{delta / full:.2f}")
    for mode, what in (("--full", "complete"), ("--delta", "delta")):
        yield Figure(f"written, not linked, {what}", f"{statistics.median(written[mode]) / 1e6:.2f} MB")
    yield from _answers(home, repository, files)


def _answers(home: Path, repository: Path, files: Sequence[Path]) -> Iterable[Figure]:
    """Compare the times of answers over a delta of one percent of the files and over a complete version of its tree."""
    for file in files[:: max(1, len(files) // max(1, len(files) // 100))]:
        file.write_text(file.read_text() + "\n\ndef added_to_one_percent(value):\n    return value\n")
    _commit(repository)
    _, stacked = _indexed(home, "--delta")
    shutil.copytree(home / "bundles", home / "kept", symlinks=True)
    _, complete = _indexed(home, "--full")
    assert read_manifest_of(stacked).stack is not None, "so few files changed"
    with (
        closing(Engine.open(home / "kept", ServingSettings())) as over,
        closing(Engine.open(home / "bundles", ServingSettings())) as whole,
    ):
        assert whole.bundle.manifest.version == complete.name
        asked = {
            "search": lambda engine, query: engine.search(SearchRequest(query=query)),
            "definition": lambda engine, query: engine.definitions(DefinitionRequest(symbol=query.split()[-1])),
            "references": lambda engine, query: engine.references(ReferencesRequest(symbol=query.split()[-1])),
        }
        for what, ask in asked.items():
            times: tuple[list[float], list[float]] = ([], [])
            for query in QUERIES * _ROUNDS:
                for engine, found in zip((over, whole), times, strict=True):
                    began = time.perf_counter()
                    ask(engine, query)
                    found.append(time.perf_counter() - began)
            ours, theirs = (1e3 * statistics.median(each) for each in times)
            yield Figure(f"{what}, p50 over delta / complete", f"{ours:.2f} / {theirs:.2f} ms")
            yield at_most(f"{what}, the ratio", ours / theirs, 1.3, "", digits=2)


def read_manifest_of(version: Path) -> Manifest:
    """Return the manifest of a version by its folder."""
    return read_manifest(BundleRoot(version.parent.parent).version(version.name))


def _commit(repository: Path) -> None:
    subprocess.run([*_GIT, "add", "--all"], cwd=repository, check=True)
    subprocess.run([*_GIT, "commit", "--quiet", "-m", "change"], cwd=repository, check=True)


def _indexed(home: Path, *options: str) -> tuple[float, Path]:
    """Index. Returns the CPU seconds of the whole process, and the published version."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},  # as installed
        "CODEQUARRY__PATHS__STORE": str(home / "store"),
        "CODEQUARRY__PATHS__WORK": str(home / "work"),
    }
    before = children_cpu()
    done = subprocess.run(
        [*CODEQUARRY, "index", str(home / "app"), "--root", str(home / "bundles"), *options],
        cwd=home, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return children_cpu() - before, Path(done.stdout.strip())


if __name__ == "__main__":
    run()
