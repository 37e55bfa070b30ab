"""Costs of one bundle at three sizes: what a plan for a fleet is computed from.

Packages of the environment become one repository of about 5,000, 20,000 and 200,000 chunks. Each is indexed, one file
is committed and published as a delta version, and the parts of a search over a fleet are timed in one thread.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.corpus import CODEQUARRY, HOME, LARGE, PACKAGES, package_folder
from benchmarks.fleets.served_fleet import anonymous_mb, sentences_of
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.ranking.promising import most_promising
from codequarry.serving.request.deadline import NEVER
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.tools.search import open_search, search
from codequarry.serving.version.open import Bundle

_KEPT_OUT = ("pydantic", "httpx", "torch", "codequarry")
"""Not in the largest corpus: what other evaluations are kept for, and what only some environments have."""
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.invalid")
_QUESTIONS = 40


@dataclass(frozen=True, slots=True)
class BundleCosts:
    """Measured costs of one bundle."""

    chunks: int
    index_cpu_s: float
    """CPU-seconds of a first index."""
    index_mb: float
    """Largest resident memory of a process of it."""
    version_mb: float
    """Bytes of a complete version."""
    push_cpu_s: float
    """CPU-seconds of a commit to one file, as a delta version."""
    push_mb: float
    """Bytes that the delta version adds."""
    choose_ms: float
    """Thread CPU of a look at the bundle while the most promising ones are chosen."""
    search_ms: float
    """Thread CPU of a search in the bundle."""
    open_mb: float
    """Memory of its own of a reader, after the searches."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs by size: lines through what was measured."""

    measured: tuple[BundleCosts, ...]

    def at(self, what: str, chunks: float | np.ndarray) -> np.ndarray:
        """Return a cost of bundles by their chunks, (n,) float64: the line of least squares, not below the least."""
        sizes = [each.chunks for each in self.measured]
        values = [float(getattr(each, what)) for each in self.measured]
        slope, offset = np.polyfit(sizes, values, 1)
        return np.maximum(slope * np.asarray(chunks, np.float64) + offset, min(values) * 0.5)


def measure_costs() -> Costs:
    """Measure the costs of bundles of three sizes; what was indexed before is indexed anew."""
    large = [package_folder(name) for name in LARGE]
    every = sorted(
        folder
        for folder in package_folder(PACKAGES[0]).parent.iterdir()
        if (folder / "__init__.py").is_file() and not folder.name.startswith(_KEPT_OUT)
    )
    corpora = {"small": [package_folder(name) for name in PACKAGES], "large": large, "largest": every}
    return Costs(tuple(_measure(HOME / "fleet_costs" / name, folders) for name, folders in corpora.items()))


def _measure(home: Path, packages: Sequence[Path]) -> BundleCosts:
    shutil.rmtree(home, ignore_errors=True)
    repository = home / "app"
    for package in packages:
        shutil.copytree(package, repository / package.name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    subprocess.run([*_GIT, "init", "--quiet"], cwd=repository, check=True)
    _commit(repository)
    index_cpu_s, index_mb = _index(home)
    root = BundleRoot(home / "bundles")
    version = root.version(root.read_current().version).path
    version_mb = sum(file.stat().st_size for file in version.rglob("*") if file.is_file()) / 1e6
    choose_ms, search_ms, open_mb, chunks = _ask(root.path, [package.name for package in packages])
    files = sorted(repository.rglob("*.py"), key=lambda file: (file.stat().st_size, file))
    file = files[len(files) // 2]
    pushes: list[float] = []
    for number in range(3):
        file.write_text(file.read_text() + f"\n\ndef added_{number}(value):\n    return value\n")
        _commit(repository)
        pushes.append(_index(home, "--delta")[0])
    delta = root.version(root.read_current().version).path
    push_mb = sum(one.stat().st_size for one in delta.rglob("*") if one.is_file() and one.stat().st_nlink == 1) / 1e6
    return BundleCosts(
        chunks, index_cpu_s, index_mb, version_mb, statistics.median(pushes), push_mb, choose_ms, search_ms, open_mb
    )


def _index(home: Path, *arguments: str) -> tuple[float, float]:
    """Index the repository; returns CPU-seconds, and the resident memory of the largest process in MB."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "CODEQUARRY__PATHS__STORE": str(home / "store"),
        "CODEQUARRY__PATHS__WORK": str(home / "work"),
        "CODEQUARRY__RETRIEVAL__ENABLED": "false",
        "CODEQUARRY__SCIP__ENABLED": "false",
    }
    command = [*CODEQUARRY, "index", "app", "--root", str(home / "bundles"), *arguments]
    # A process between, as the largest memory of children is kept for the life of their parent.
    script = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stderr=subprocess.DEVNULL);"
        "use = resource.getrusage(resource.RUSAGE_CHILDREN); print(use.ru_utime + use.ru_stime, use.ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *command],
        cwd=home, env=environment, check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    cpu, memory = done.stdout.split()[-2:]
    return float(cpu), int(memory) * 1024 / 1e6


def _ask(root: Path, packages: Sequence[str]) -> tuple[float, float, float, int]:
    """Return the thread CPU in ms of a look and of a search, the reader's memory in MB, and the chunks."""
    settings = ServingSettings()
    before = anonymous_mb()
    questions = list(islice((text for name in packages for text, _ in islice(sentences_of(name), 4)), _QUESTIONS))
    with closing(Engine(Bundle.open_current(root, settings), settings)) as engine:
        bundle = engine.bundle
        context = ToolContext(bundle, settings, NEVER)
        looks = [_cpu_ms(lambda text=text: _choose_of_two(context, text)) / 2 for text in questions]
        searches = [
            _cpu_ms(lambda text=text: engine.answer_admitted("search", search, SearchRequest(query=text, top_k=10)))
            for text in questions
        ]
        memory = anonymous_mb() - before
        return statistics.median(looks), statistics.median(searches), memory, len(bundle.directory.chunk_ids)


def _choose_of_two(context: ToolContext, text: str) -> None:
    request = SearchRequest(query=text)
    versions = open_search([(context, request), (context, request)])
    most_promising(versions.measure(nearness=True), 1, versions.best_scores)


def _cpu_ms(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return 1000 * (time.process_time() - started)


def _commit(repository: Path) -> None:
    subprocess.run([*_GIT, "add", "--all", "--force"], cwd=repository, check=True)
    subprocess.run([*_GIT, "commit", "--quiet", "-m", "change"], cwd=repository, check=True)
