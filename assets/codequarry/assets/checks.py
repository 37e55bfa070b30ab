"""The expectation suites as blocking asset checks: the output of a stage is judged before the next stage reads it."""

import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from codequarry.assets.bundle import published_bundle
from codequarry.assets.metadata import markdown_table
from codequarry.assets.pointers import read_pointer
from codequarry.assets.project import Project
from codequarry.assets.stages import POOL
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.workspace import repository_work
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.errors import NoBundleError
from codequarry.schemas.settings.load import Settings
from codequarry.schemas.times import parse_time
from codequarry.serving.files.integrity import current_manifest

if TYPE_CHECKING:
    from codequarry.pipelines.gates.great_expectations import SuiteResult

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
    """Return the name of the check of a table.

    >>> check_name("chunks")
    'rows_of_chunks'
    """
    return f"rows_of_{table}"


def suite_check(table: str, asset: str) -> dg.AssetChecksDefinition:
    """Return the check of one table, over the repositories of the run, or over the staged version."""

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
            results = (
                _of_staged(settings)
                if asset == "staged_bundle"
                else _of_work(table, settings, _chosen_repositories(context))
            )
        return _reported(results, time.perf_counter() - started)

    return check


def _chosen_repositories(context: dg.AssetCheckExecutionContext) -> set[str] | None:
    """Return the repositories of the run; None for all of the settings."""
    step = context.op_execution_context
    return set(step.partition_keys) if step.has_partition_key or step.has_partition_key_range else None


def _of_work(table: str, settings: Settings, chosen: set[str] | None) -> "tuple[SuiteResult, ...]":
    from codequarry.pipelines.gates.great_expectations import documents_folder, keep, run_suites
    from codequarry.pipelines.gates.work_tables import open_work, suites_over_work

    names = [name for name in repositories_by_name(settings.sources.repositories) if chosen is None or name in chosen]
    suites = suites_over_work(table, settings)
    with closing(open_work([repository_work(settings.paths.work, name) for name in names], suites)) as connection:
        results = run_suites(connection, suites)
    keep(results, documents_folder(settings.paths.work))
    return results


def _of_staged(settings: Settings) -> "tuple[SuiteResult, ...]":
    from codequarry.pipelines.bundle.stage import Staged
    from codequarry.pipelines.gates.great_expectations import documents_folder, keep, run_suites
    from codequarry.schemas.bundle.layout import BundlePaths
    from codequarry.schemas.gates.suites import CHUNKS, FAISS_IDMAP, FILES
    from codequarry.serving.files.integrity import read_manifest
    from codequarry.serving.version.file_checks import open_tables

    paths = BundlePaths(read_pointer(settings.paths.work, Staged).path)
    with closing(open_tables(paths, read_manifest(paths), (FILES, CHUNKS, FAISS_IDMAP))) as connection:
        results = run_suites(connection, (FAISS_IDMAP,))
    keep(results, documents_folder(settings.paths.work))
    return results


def _reported(results: "tuple[SuiteResult, ...]", seconds: float) -> dg.AssetCheckResult:
    """Return every expectation with its count, threshold and examples; failed ones first and in the description."""
    outcomes = sorted((each for result in results for each in result.outcomes), key=lambda each: each.passed)
    failed = [each for each in outcomes if not each.passed]
    rows = [
        {
            "rows that must not be": each.expectation.name,
            "found": each.count_text,
            "allowed": each.expectation.allowed,
            "result": "passed" if each.passed else "FAILED",
            "examples": "; ".join(each.examples),
        }
        for each in outcomes
    ]
    columns = ("rows that must not be", "found", "allowed", "result", "examples")
    said = "; ".join(
        f"{each.expectation.name}: {each.count_text}, allowed {each.expectation.allowed}" for each in failed
    )
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


@dg.asset_check(
    asset=published_bundle,
    name="current_is_fresh",
    blocking=True,  # what fails with it is the run, so that somebody is told
    description="CURRENT was built, or found up to date by a run, within [automation] max_age_hours; or it holds the "
    "head of every repository.",
)
def current_is_fresh(context: dg.AssetCheckExecutionContext, project: Project) -> dg.AssetCheckResult:
    with project.explained(0) as settings:
        manifest = current_manifest(BundleRoot(settings.bundle.root))
        if manifest is None:
            raise NoBundleError(
                f"nothing is published under {settings.bundle.root}", suggestion="launch the job `reindex`"
            )
        built = parse_time(manifest.created).timestamp()
        seen = context.instance.get_latest_materialization_event(published_bundle.key)
        confirmed = max(built, seen.timestamp if seen is not None else 0.0)
        # The age is never negative, even if a clock was set back.
        hours = max(time.time() - confirmed, 0.0) / 3600
        allowed = settings.automation.max_age_hours
        verdict = f"CURRENT was confirmed {hours:.1f} hours ago, expected at most {allowed:g}"
        fresh = hours <= allowed
        if not fresh and _holds_every_head(settings, manifest, Path(project.settings_file).parent):
            verdict, fresh = "CURRENT holds the head of every repository", True
        return dg.AssetCheckResult(
            passed=fresh,
            description=verdict if fresh else f"{verdict}; see why no run of `reindex` succeeded since, and launch one",
            metadata={
                "version": manifest.version,
                "built": dg.MetadataValue.timestamp(datetime.fromtimestamp(built, UTC)),
                "confirmed": dg.MetadataValue.timestamp(datetime.fromtimestamp(confirmed, UTC)),
                "hours": round(hours, 2),
                "hours_allowed": allowed,
            },
        )


def _holds_every_head(settings: Settings, manifest: Manifest, folder: Path) -> bool:
    """Return whether CURRENT holds the head of every repository, so that no run was needed.

    It is False when a repository has no head or does not answer.
    """
    from codequarry.pipelines.sources.sources import read_heads

    heads = read_heads(repositories_by_name(settings.sources.repositories).values(), folder)
    served = {source.name: source.commit for source in manifest.sources if not source.dirty}
    return not heads.problems and heads.commits == served


freshness = dg.define_asset_job(
    "freshness",
    selection=dg.AssetSelection.checks(current_is_fresh),
    description="Fails when the check of CURRENT's age does, so that the sensor failed_runs tells.",
)
