"""Memory of ten branches over one base, beside that of the base alone: one server process each."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from benchmarks.corpus import CODEQUARRY, HOME, LARGE, package_folder
from benchmarks.report import Figure, at_most, print_figures
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.grep import CodeSearchRequest
from codequarry.schemas.wire.search import SearchFilters, SearchRequest
from codequarry.serving.engine.engine import Engine

BRANCHES = 10
CHANGED = 5
"""Files that differ on each branch."""
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.invalid")
_QUERIES = ("where are sessions removed when they end", "parse_headers", "close the connection")


def run() -> None:
    """Measure and print."""
    home = HOME / "branches"
    shutil.rmtree(home, ignore_errors=True)
    repository = home / "app"
    for package in LARGE:
        shutil.copytree(package_folder(package), repository / package, ignore=shutil.ignore_patterns("__pycache__"))
    _git(repository, "init", "--quiet", "--initial-branch", "main")
    _git(repository, "add", "--all")
    _git(repository, "commit", "--quiet", "-m", "first")
    files = sorted(repository.rglob("*.py"), key=lambda file: (file.stat().st_size, file))
    for number in range(BRANCHES):
        _git(repository, "checkout", "--quiet", "-b", f"branch{number}", "main")
        for file in files[number :: len(files) // CHANGED][:CHANGED]:
            file.write_text(file.read_text() + f"\n\ndef added_on_branch_{number}(value):\n    return value\n")
        _git(repository, "commit", "--quiet", "--all", "-m", "change")
    _git(repository, "checkout", "--quiet", "main")
    environment = {
        **os.environ,
        "CODEQUARRY__PATHS__STORE": str(home / "store"),
        "CODEQUARRY__PATHS__WORK": str(home / "work"),
    }
    refs = [f"{repository}#branch{number}" for number in range(BRANCHES)]
    subprocess.run(
        [*CODEQUARRY, "index", str(repository), *refs, "--root", str(home / "bundles")],
        cwd=home, env=environment, check=True, capture_output=True,
    )  # fmt: skip
    alone, every = (_measured(home / "bundles", branches) for branches in (0, BRANCHES))
    print_figures(
        f"{BRANCHES} branches over one base, {CHANGED} files changed on each",
        [
            Figure("proportional memory, base alone", f"{alone['Pss'] / 1024:.0f} MB"),
            Figure("proportional memory, base and branches", f"{every['Pss'] / 1024:.0f} MB"),
            at_most("branches / base alone, proportional", every["Pss"] / alone["Pss"], 1.3, ""),
            at_most("branches / base alone, private", every["Private"] / alone["Private"], 1.3, ""),
        ],
    )


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run([*_GIT, *arguments], cwd=folder, check=True)


def _measured(root: Path, branches: int) -> dict[str, float]:
    """Return the KiB of a process that answers from the base and from so many branches."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.versions.branches", str(root), str(branches)],
        cwd=Path(__file__).parents[2], check=True, capture_output=True, text=True,
    )  # fmt: skip
    proportional, private = done.stdout.split()
    return {"Pss": float(proportional), "Private": float(private)}


def _answer(root: Path, branches: int) -> None:
    """Answer from the base and from branches, and print the memory of this process."""
    with closing(Engine.open(root, ServingSettings())) as engine:
        for ref in ("", *(f"branch{number}" for number in range(branches))):
            for query in _QUERIES:
                engine.search(SearchRequest(query=query, filters=SearchFilters(ref=ref)))
            number = ref.removeprefix("branch")
            asked = CodeSearchRequest(pattern=f"added_on_branch_{number}(", filters=SearchFilters(ref=ref))
            assert (engine.search_code(asked).total > 0) == bool(ref)
        read = dict(re.findall(r"^(\w+): +(\d+) kB$", Path("/proc/self/smaps_rollup").read_text(), re.MULTILINE))
        print(read["Pss"], int(read["Private_Clean"]) + int(read["Private_Dirty"]))


if __name__ == "__main__":
    _answer(Path(sys.argv[1]), int(sys.argv[2]))
