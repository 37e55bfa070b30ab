"""The expectation suites as blocking asset checks: what a stage made is judged before anything is made of it."""

import time
from contextlib import closing
from typing import TYPE_CHECKING

import dagster as dg

from codequarry.assets.metadata import markdown_table
from codequarry.assets.project import Project
from codequarry.assets.stages import POOL
from codequarry.pipelines.sources import named
from codequarry.pipelines.workspace import repository_work
from codequarry.schemas.settings import Settings

if TYPE_CHECKING:
    from codequarry.assets.gx_suites import SuiteResult

_CELL_CHARS = 400

CHECKED: dict[str, str] = {
    "files": "repository_snapshot",
    "chunks": "repository_chunks",
    "ast_nodes": "repository_syntax",
    "cst_nodes": "repository_syntax",
    "modules": "repository_modules",
    "scip_symbols": "repository_scip",
    "scip_occurrences": "repository_scip",
    "embeddings": "repository_embeddings",
    "faiss_idmap": "staged_bundle",
}
"""The asset that makes each table with a suite."""


def check_name(table: str) -> str:
    """Name of the check of a table.

    >>> check_name("chunks")
    'rows_of_chunks'
    """
    return f"rows_of_{table}"


def suite_check(table: str, asset: str) -> dg.AssetChecksDefinition:
    """The check of one table, over the repositories of the run, or over the staged version."""

    @dg.asset_check(
        name=check_name(table),
        asset=asset,
        blocking=True,
        pool=POOL,
        description=f"Great Expectations over every row of {table}. docs/OPERATIONS.md says how to react to each gate.",
    )
    def check(context: dg.AssetCheckExecutionContext, project: Project) -> dg.AssetCheckResult:
        started = time.perf_counter()
        with project.step(context.op_execution_context.retry_number) as settings:
            results = _of_staged(settings) if asset == "staged_bundle" else _of_work(table, settings, _chosen(context))
        return _reported(results, time.perf_counter() - started)

    return check


def _chosen(context: dg.AssetCheckExecutionContext) -> set[str] | None:
    """The repositories of the run; None for all of the settings."""
    step = context.op_execution_context
    return set(step.partition_keys) if step.has_partition_key or step.has_partition_key_range else None


def _of_work(table: str, settings: Settings, chosen: set[str] | None) -> "tuple[SuiteResult, ...]":
    from codequarry.assets.gx_suites import documents, keep, run_suites
    from codequarry.pipelines.work_tables import open_work, suites_over_work

    names = [name for name in named(settings.sources.repositories) if chosen is None or name in chosen]
    suites = suites_over_work(table, settings)
    with closing(open_work([repository_work(settings.paths.work, name) for name in names], suites)) as connection:
        results = run_suites(connection, suites)
    keep(results, documents(settings))
    return results


def _of_staged(settings: Settings) -> "tuple[SuiteResult, ...]":
    from pathlib import Path

    from codequarry.assets.gx_suites import documents, keep, run_suites
    from codequarry.pipelines.staging import read_pointer, staged_pointer
    from codequarry.schemas.checks import open_tables
    from codequarry.schemas.integrity import read_manifest
    from codequarry.schemas.layout import BundlePaths
    from codequarry.schemas.suites import CHUNKS, FAISS_IDMAP, FILES

    paths = BundlePaths(Path(read_pointer(staged_pointer(settings), "staged")["path"]))
    with closing(open_tables(paths, read_manifest(paths), (FILES, CHUNKS, FAISS_IDMAP))) as connection:
        results = run_suites(connection, (FAISS_IDMAP,))
    keep(results, documents(settings))
    return results


def _reported(results: "tuple[SuiteResult, ...]", seconds: float) -> dg.AssetCheckResult:
    """Every expectation with its count, threshold and examples; the failed ones first and in the description."""
    outcomes = sorted((each for result in results for each in result.outcomes), key=lambda each: each.passed)
    failed = [each for each in outcomes if not each.passed]
    rows = [
        {
            "rows that must not be": each.expectation.name,
            "found": each.found,
            "allowed": each.expectation.allowed,
            "result": "passed" if each.passed else "FAILED",
            "examples": "; ".join(each.examples),
        }
        for each in outcomes
    ]
    columns = ("rows that must not be", "found", "allowed", "result", "examples")
    said = "; ".join(f"{each.expectation.name}: {each.found}, allowed {each.expectation.allowed}" for each in failed)
    return dg.AssetCheckResult(
        passed=not failed,
        description=said or f"{len(outcomes)} expectations hold",
        metadata={
            "expectations": markdown_table(rows, columns, cell_chars=_CELL_CHARS),
            "rows": max(each.rows for each in outcomes),
            "broken": len(failed),
            "examples": [example for each in failed for example in each.examples],
            "seconds": round(seconds, 3),
        },
    )


suite_checks = [suite_check(table, asset) for table, asset in CHECKED.items()]
