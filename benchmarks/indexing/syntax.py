"""Syntax, chunks and SCIP over a repository of Django's size: CPU, memory, stability of ids, agreement with SCIP.

``CODEQUARRY_BENCH_TREE`` names another folder to measure, ``CODEQUARRY_BENCH_SCIP`` an index of it that is ready;
``CODEQUARRY_SCIP_TOOLS`` a folder with ``node_modules/.bin/scip-python``, without which SCIP is not measured.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean

from benchmarks.corpus import package_folder
from benchmarks.lookups.scip_coverage import coverage
from benchmarks.report import Figure, at_least, at_most, percentile, print_figures
from codequarry.pipelines.sources.snapshot import snapshot_repository
from codequarry.pipelines.syntax.chunks.chunk import chunk_source
from codequarry.pipelines.syntax.chunks.rows import chunk_ids
from codequarry.pipelines.syntax.grammars import grammar
from codequarry.pipelines.syntax.parsing import parse
from codequarry.schemas.settings.load import PathsSettings, RepositorySettings, ScipSettings, Settings, SourcesSettings
from codequarry.schemas.trust.programs import tools_folder

TREE = "dagster"
COMPARED = ("jsonschema", "rich", "starlette")
EDITED = ("rich", "sqlalchemy", "dagster")
INSERTIONS = 300
_INSERTED = b"def inserted_%d(first, second):\n    total = first + second\n    return [total for _ in range(3)]\n\n\n"


def run() -> None:
    """Measure and print."""
    tree = Path(os.environ.get("CODEQUARRY_BENCH_TREE") or package_folder(TREE))
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        print_figures(f"Syntax and chunks of a repository: {tree.name}", _stages(tree, home))
        print_figures("Ids under edits", [figure for package in EDITED for figure in _stability(package)])
        print_figures("SCIP", _scip(tree, home))


def _stages(tree: Path, home: Path) -> list[Figure]:
    one = _measured("chunk", _settings(tree, home / "one"))
    for copy in range(4):
        shutil.copytree(tree, home / "copies" / f"copy_{copy}", ignore=shutil.ignore_patterns("__pycache__"))
    four = _measured("chunk", _settings(home / "copies", home / "four"))
    shutil.rmtree(home / "copies")
    return [
        at_most(f"chunk stage of {one['files']:,} files, workers included", one["cpu"], 12, "CPU-s"),
        at_most("peak memory, main process", one["peak"], 400, "MB", 0),
        at_most("peak memory, largest worker", one["worker_peak"], 400, "MB", 0),
        at_most("main process, four times the files / once", four["peak"] / one["peak"], 1.15, "", 2),
        at_most("largest worker, four times the files / once", four["worker_peak"] / one["worker_peak"], 1.15, "", 2),
    ]


def _stability(package: str) -> list[Figure]:
    """Insert a function before random definitions; count the chunks that lose their id and do not touch it."""
    chance = random.Random(1)
    sources = [file.read_bytes() for file in sorted(package_folder(package).rglob("*.py"))]
    files = [(data, places) for data in sources if (places := _places(data))]
    changed = [_insertion(*chance.choice(files), number, chance) for number in range(INSERTIONS)]
    spread = f"{mean(changed):.2f} / {percentile(changed, 0.95):.0f} / {max(changed):.0f}"
    return [Figure(f"{package}: other chunks that one inserted function changes, mean / p95 / max", spread)]


def _places(data: bytes) -> list[int]:
    """Return where the definitions of a module start, decorators included."""
    tree = parse(grammar("python"), data)
    children = tree.root_node.children if tree is not None else []
    return [child.start_byte for child in children if child.type.endswith("_definition")]


def _insertion(data: bytes, places: list[int], number: int, chance: random.Random) -> float:
    place = chance.choice(places)
    kept = {own for *_, own in _ids(data[:place] + _INSERTED % number + data[place:])}
    return sum(own not in kept for start, end, own in _ids(data) if not start <= place <= end)


def _ids(data: bytes) -> list[tuple[int, int, int]]:
    made = chunk_source(data, "python")
    own = chunk_ids("repo", "file.py", data, made)
    return [(span.start_byte, span.end_byte, chunk) for span, chunk in zip(made.spans, own, strict=True)]


def _scip(tree: Path, home: Path) -> list[Figure]:
    tools = Path(os.environ.get("CODEQUARRY_SCIP_TOOLS") or "missing").absolute()
    if not (tools / "node_modules" / ".bin" / "scip-python").exists():
        return [Figure("no scip-python: CODEQUARRY_SCIP_TOOLS names no folder with it", "not measured")]
    ready = os.environ.get("CODEQUARRY_BENCH_SCIP")
    settings = _settings(tree, home / "one", scip=(Path(ready),) if ready else ())
    for store in (settings.paths.store, home / "compared"):
        store.mkdir(parents=True, exist_ok=True)
    os.environ["XDG_DATA_HOME"] = str(home / "data")
    tools_folder().parent.mkdir(parents=True, exist_ok=True)
    tools_folder().symlink_to(tools)
    figures = []
    if not ready:
        first = _measured("scip", settings)
        figures.append(Figure(f"scip-python over {tree.name}, its processes included", f"{first['cpu']:.0f} CPU-s"))
    read = _measured("scip", settings)
    figures += [
        at_most(f"reading its index into tables: {read['rows']:,} occurrences", read["cpu"], 3, "CPU-s"),
        Figure("peak memory of that", f"{read['peak']:.0f} MB"),
    ]
    own = Settings(paths=PathsSettings(store=home / "compared", work=home / "work"))
    for package in COMPARED:
        found = coverage(RepositorySettings(path=package_folder(package), name=package), own)
        listed, whole = 100 * found.listed / found.definitions, 100 * found.whole / found.fitting
        figures += [
            at_least(f"{package}: {found.definitions:,} definitions of SCIP listed by their chunk", listed, 99, "%"),
            at_least(f"{package}: {found.fitting:,} functions that fit are whole", whole, 95, "%"),
        ]
    return figures


def _settings(tree: Path, home: Path, scip: tuple[Path, ...] = ()) -> Settings:
    repository = RepositorySettings(path=tree, name="bench", scip=scip)
    settings = Settings(
        paths=PathsSettings(store=home / "store", work=home / "work"),
        sources=SourcesSettings(repositories=(repository,)),
        scip=ScipSettings(enabled=not scip),
    )
    snapshot_repository(repository, settings)
    return settings


def _measured(stage: str, settings: Settings) -> dict[str, float]:
    """Run a stage in a process of its own, which has done nothing else."""
    command = [sys.executable, "-m", "benchmarks.indexing.stage", stage, settings.model_dump_json()]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    return json.loads(done.stdout)


if __name__ == "__main__":
    run()
