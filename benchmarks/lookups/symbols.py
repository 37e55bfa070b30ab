"""Definitions and references inside the process, on one core, in a bundle of more than 200,000 occurrences.

Where ``CODEQUARRY_BENCH_REPOSITORIES`` names folders of repositories, separated by colons, their definitions are also
compared with those of Universal Ctags.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.corpus import HOME
from benchmarks.lookups.symbol_bundle import build, open_bundle
from benchmarks.lookups.symbols_ctags import print_comparison
from benchmarks.report import Figure, at_least, at_most, percentile, print_figures
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.symbols import DefinitionRequest, ReferencesRequest
from codequarry.serving.request.deadline import NEVER
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.tools.definitions import go_to_definition
from codequarry.serving.tools.references import find_references
from codequarry.serving.version.open import Bundle

QUESTIONS = 400
REPOSITORIES = "CODEQUARRY_BENCH_REPOSITORIES"


def run() -> None:
    """Build the bundle, measure and print."""
    if folders := os.environ.get(REPOSITORIES, ""):
        print_comparison([Path(folder) for folder in folders.split(os.pathsep)])
    paths, seconds = build(HOME / "symbols")
    bundle = open_bundle(paths)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    occurrences = counted(bundle, "occurrences_mat")
    figures = [
        at_least("occurrences in the bundle", occurrences, 200_000, "", 0),
        Figure("definitions", f"{counted(bundle, 'symbols_mat'):,}"),
        Figure("building the whole catalog, its rows and facts", f"{seconds:.1f} CPU-s"),
        Figure("catalog.duckdb", f"{paths.catalog.stat().st_size / 1e6:.1f} MB"),
        *timings(bundle),
    ]
    bundle.close()
    print_figures(f"Symbol look-ups in the process, one core, {QUESTIONS} questions each", figures)


def timings(bundle: Bundle) -> list[Figure]:
    """Latency by kind of question, the questions drawn from the bundle's definitions and uses."""
    definitions = sample(bundle, "SELECT name, qualified_name, module FROM symbols_mat", "symbol_id")
    uses = sample(
        bundle,
        "SELECT concat(repo, '/', path), start_line, start_column FROM places_mat JOIN files_mat USING (file)",
        "file, start_line, start_column",
    )
    context = ToolContext(bundle, ServingSettings(), NEVER)
    calls: dict[str, tuple[Callable[..., object], Sequence[object]]] = {
        "go_to_definition by name": (
            go_to_definition, [DefinitionRequest(symbol=name) for name, _, _ in definitions]),
        "go_to_definition by qualified name": (
            go_to_definition, [DefinitionRequest(symbol=f"{module}.{own}") for _, own, module in definitions]),
        "go_to_definition by place": (
            go_to_definition, [DefinitionRequest(uri=uri, line=line, column=column) for uri, line, column in uses]),
        "find_references by name": (
            find_references, [ReferencesRequest(symbol=name) for name, _, _ in definitions]),
        "find_references by qualified name": (
            find_references, [ReferencesRequest(symbol=f"{module}.{own}") for _, own, module in definitions]),
        "find_references by place": (
            find_references, [ReferencesRequest(uri=uri, line=line, column=column) for uri, line, column in uses]),
    }  # fmt: skip
    figures: list[Figure] = []
    for name, (call, requests) in calls.items():
        for request in requests[:20]:
            call(context, request)
        times: list[float] = []
        for request in requests:
            started = time.perf_counter()
            call(context, request)
            times.append(1000 * (time.perf_counter() - started))
        figures.append(at_most(f"{name}: p50", percentile(times, 0.5), 3, "ms"))
        figures.append(at_most(f"{name}: p95", percentile(times, 0.95), 10, "ms"))
    return figures


def sample(bundle: Bundle, sql: str, order: str) -> list[tuple[Any, ...]]:
    """Rows of a query, the same at every run."""
    with bundle.catalog.reading() as cursor:
        rows = cursor.execute(f"{sql} ORDER BY {order}").fetchall()
    return random.Random(0).sample(rows, QUESTIONS)


def counted(bundle: Bundle, table: str) -> int:
    """Rows of a table of the catalog."""
    with bundle.catalog.reading() as cursor:
        return cursor.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]


if __name__ == "__main__":
    run()
