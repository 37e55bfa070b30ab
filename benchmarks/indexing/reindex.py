"""CPU of indexing the corpus from nothing, again without a change, and after commits to one file each."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.corpus import CODEQUARRY, HOME, PACKAGES, children_cpu, index, package_folder
from benchmarks.report import Figure, at_least, at_most, print_figures

COMMITS = 7
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.invalid")


def run() -> None:
    """Measure and print."""
    _, first, summary = index(HOME / "reindex", fresh=True)
    _, second, again = index(HOME / "reindex")
    assert "unchanged" in again
    figures = [
        at_most("first index", first, 15, "CPU-s"),
        Figure("second index, nothing changed", f"{second:.2f} CPU-s"),
        at_most("second / first", 100 * second / first, 10, "%"),
    ]
    print_figures("Reindexing", figures)
    print("\n```\n" + "\n".join(line for line in summary.splitlines() if "━" not in line) + "\n```")
    for model in ("static", "minilm"):
        title = f"Commits to one file each: {COMMITS} files over the whole repository, encoder {model}"
        print_figures(title, list(_commits(model)))


def _commits(model: str) -> Iterable[Figure]:
    """The corpus as one git repository, and what a commit to one file of it costs with an encoder."""
    home = HOME / "commits"
    shutil.rmtree(home, ignore_errors=True)
    repository = home / "app"
    for name in PACKAGES:
        shutil.copytree(package_folder(name), repository / name, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([*_GIT, "init", "--quiet"], cwd=repository, check=True)
    full = _indexed(home, repository, "everything", model)
    files = sorted(repository.rglob("*.py"), key=lambda file: (file.stat().st_size, file))
    costs: list[float] = []
    version = full[2]
    shares: list[float] = []
    kept: list[float] = []
    for number in range(COMMITS):
        # From the smallest to the largest file, so that no shard is preferred.
        file = files[(2 * number + 1) * len(files) // (2 * COMMITS)]
        file.write_text(file.read_text() + f"\n\ndef added_by_commit_{number}(value):\n    return value + {number}\n")
        before = {entry["sha256"] for entry in _files(version)}
        cpu, said, version = _indexed(home, repository, f"commit {number}", model)
        assert re.search(r"files chunked +1 chunked", said), said
        costs.append(cpu)
        shares.append(_shared(file for file in version.rglob("*") if file.is_file()))
        kept.append(_shared(version / entry["path"] for entry in _files(version) if entry["sha256"] in before))
    cost, chunks = statistics.median(costs), json.loads((version / "manifest.json").read_text())["counts"]["chunks"]
    yield Figure("chunks of the repository", f"{chunks:,}")
    yield Figure("first index", f"{full[0]:.1f} CPU-s")
    yield Figure("a commit, median / largest", f"{cost:.2f} / {max(costs):.2f} CPU-s")
    yield at_most("a commit / first index, median", 100 * cost / full[0], 5, "%")
    yield at_most("a commit / first index, largest", 100 * max(costs) / full[0], 5, "%")
    yield at_least("bytes shared with the version before, median", 100 * statistics.median(shares), 90, "%")
    yield Figure("bytes shared with the version before, least", f"{100 * min(shares):.1f} %")
    yield at_least("bytes of unchanged files shared with the version before, least", 100 * min(kept), 90, "%")


def _indexed(home: Path, repository: Path, message: str, model: str) -> tuple[float, str, Path]:
    """Commit everything and index. Returns (CPU seconds of the whole process, its summary, the published version)."""
    subprocess.run([*_GIT, "add", "--all"], cwd=repository, check=True)
    subprocess.run([*_GIT, "commit", "--quiet", "-m", message], cwd=repository, check=True)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},  # as installed
        "CODEQUARRY__PATHS__STORE": str(home / "store"),
        "CODEQUARRY__PATHS__WORK": str(home / "work"),
        "CODEQUARRY__EMBEDDING__MODEL": model,
    }
    before = children_cpu()
    done = subprocess.run(
        [*CODEQUARRY, "index", str(repository), "--verbose", "--root", str(home / "bundles")],
        cwd=home, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return children_cpu() - before, done.stderr, Path(done.stdout.strip())


def _files(version: Path) -> list[dict[str, Any]]:
    """Read what a version's manifest says of its files."""
    return json.loads((version / "manifest.json").read_text())["files"]


def _shared(files: Iterable[Path]) -> float:
    """Share of the bytes of some files of a version that are links to another one."""
    found = [file.stat() for file in files]
    return sum(each.st_size for each in found if each.st_nlink > 1) / sum(each.st_size for each in found)


if __name__ == "__main__":
    run()
