"""Checks of the tables before the next stage reads them, and of CURRENT.

Every table has two. SQL judges each row and blocks; Great Expectations measures the whole table and warns.
"""

import time
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from codequarry.assets.metadata import markdown_table
from codequarry.assets.project import Project
from codequarry.assets.stages import POOL
from codequarry.pipelines.gates.version_rules import identifier
from codequarry.pipelines.sources.carried import left_out
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.workspace import RepositoryWork, repository_work
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.errors import NoBundleError
from codequarry.schemas.settings.load import Settings
from codequarry.schemas.times import parse_time
from codequarry.serving.files.integrity import current_manifest

if TYPE_CHECKING:
    from codequarry.pipelines.gates.great_expectations import TableStatistics
    from codequarry.schemas.gates.expectation import Outcome

_CELL_CHARS = 400

CHECKED: dict[str, str] = {
    "files": "repository_snapshot",
    "chunks": "repository_chunks",
    "ast_nodes": "repository_syntax",
    "ast_members": "repository_syntax",
    "cst_nodes": "repository_syntax",
    "modules": "repository_modules",
    "scip_symbols": "repository_scip",
    "scip_occurrences": "repository_scip",
    "embeddings": "repository_embeddings",
}
"""The asset that makes each table with a suite."""


def check_name(table: str) -> str:
    """Return the name of the check of a table's rows.

    >>> check_name("chunks")
    'rows_of_chunks'
    """
    return f"rows_of_{table}"


def statistics_name(table: str) -> str:
    """Return the name of the check of a table by Great Expectations.

    >>> statistics_name("chunks")
    'gx_chunks'
    """
    return f"gx_{table}"


def suite_check(table: str, asset: str) -> dg.AssetChecksDefinition:
    """Return the check of the rows of one table, over the repositories of the run."""

    @dg.asset_check(
        name=check_name(table),
        asset=asset,
        blocking=True,
        pool=POOL,
        description=f"Every row of {table}, judged by SQL. docs/GATES.md says how to react to each gate.",
    )
    def check(context: dg.AssetCheckExecutionContext, project: Project) -> dg.AssetCheckResult:
        started = time.perf_counter()
        with project.step(context.op_execution_context.retry_number) as settings:
            outcomes = _outcomes(table, settings, _works(settings, _chosen_repositories(context)))
        return _reported(outcomes, time.perf_counter() - started)

    return check


def statistics_check(table: str, asset: str) -> dg.AssetChecksDefinition:
    """Return the check of one table by Great Expectations, over the repositories of the run; it only warns."""

    @dg.asset_check(
        name=statistics_name(table),
        asset=asset,
        blocking=False,
        pool=POOL,
        description=f"Great Expectations over {table}: lengths, nulls, foreign keys, quantiles, and shares against "
        "CURRENT. It warns and stops nothing. Of large tables it looks at a sample, and says so.",
    )
    def check(context: dg.AssetCheckExecutionContext, project: Project) -> dg.AssetCheckResult:
        started = time.perf_counter()
        with project.step(context.op_execution_context.retry_number) as settings:
            works = _works(settings, _chosen_repositories(context))
            statistics = _statistics(table, settings, works, context.op_execution_context.run_id)
        return _reported_statistics(statistics, time.perf_counter() - started)

    return check


def _chosen_repositories(context: dg.AssetCheckExecutionContext) -> set[str] | None:
    """Return the repositories of the run; None for all of the settings."""
    step = context.op_execution_context
    return set(step.partition_keys) if step.has_partition_key or step.has_partition_key_range else None


def _works(settings: Settings, chosen: set[str] | None) -> dict[str, RepositoryWork]:
    """Return the work folders of the repositories of the run that could be read."""
    works = {
        name: repository_work(settings.paths.work, name)
        for name in repositories_by_name(settings.sources.repositories)
        if chosen is None or name in chosen
    }
    return {name: work for name, work in works.items() if left_out(work) is None}


def _outcomes(table: str, settings: Settings, works: dict[str, RepositoryWork]) -> "list[Outcome]":
    from codequarry.pipelines.gates.work_tables import open_work, suites_over_work
    from codequarry.schemas.gates.expectation import run_suite

    suites = suites_over_work(table, settings)
    with closing(open_work(list(works.values()), table, suites)) as connection:
        return [outcome for suite in suites for outcome in run_suite(connection, suite)]


def _statistics(
    table: str, settings: Settings, works: dict[str, RepositoryWork], run_id: str
) -> "list[TableStatistics]":
    from codequarry.pipelines.gates.great_expectations import NamedRun, run_suite_once
    from codequarry.pipelines.gates.kept_documents import documents_folder
    from codequarry.pipelines.gates.published_shares import published_shares
    from codequarry.pipelines.gates.work_tables import digest_of_rows, native_suites_over_work, open_work

    run = NamedRun(tuple(works), run_id, datetime.now(UTC))
    folder, listed = documents_folder(settings.paths.work), list(works.values())
    return [
        run_suite_once(
            lambda: open_work(listed, table),
            suite,
            lambda suite=suite: published_shares(BundleRoot(settings.bundle.root), suite, works),
            run,
            folder,
            digest_of_rows(listed, suite),
        )
        for suite in native_suites_over_work(table, settings)
    ]


def _reported(outcomes: "list[Outcome]", seconds: float) -> dg.AssetCheckResult:
    """Return every expectation with its count, threshold and examples; failed ones first and in the description."""
    outcomes = sorted(outcomes, key=lambda each: each.passed)
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


def _reported_statistics(statistics: "list[TableStatistics]", seconds: float) -> dg.AssetCheckResult:
    """Return what was found, each quantity as a number of its own, so that Dagster draws its history."""
    documents = [each.document for each in statistics]
    found = sorted((one for each in documents for one in each.summary["found"]), key=lambda one: one["passed"])
    failed = [one for one in found if not one["passed"]]
    rows = [
        {
            "quantity": one["name"],
            "found": "no number" if one["found"] is None else f"{one['found']:.4g}",
            "allowed": one["allowed"],
            "result": "passed" if one["passed"] else "WARNING",
            "examples": "; ".join(one["examples"]),
        }
        for one in found
    ]
    said = "; ".join(f"{row['quantity']}: {row['found']}, allowed {row['allowed']}" for row in rows[: len(failed)])
    notes = list(dict.fromkeys(each.note for each in documents))
    if all(each.kept for each in statistics):
        notes.insert(0, f"nothing changed since the run {documents[0].summary['run']}, whose results these are")
    shown = (failed or found)[:1]
    return dg.AssetCheckResult(
        passed=not failed,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join((said or (f"{len(found)} expectations hold" if found else "nothing to ask"), *notes)),
        metadata={
            **{key: value for one in shown for key, value in _numbers(one).items() if value is not None},
            **{identifier(one["name"]): one["found"] for one in found if one["found"] is not None},
            "expectations": markdown_table(
                rows, ("quantity", "found", "allowed", "result", "examples"), cell_chars=_CELL_CHARS
            ),
            "run": documents[0].summary["run"],
            "rows": max(each.summary["rows"] for each in documents),
            "looked_at": max(each.summary["looked_at"] for each in documents),
            "broken": len(failed),
            "unchanged": all(each.kept for each in statistics),
            "page": dg.MetadataValue.path(statistics[0].page),
            "document": dg.MetadataValue.path(documents[0].path),
            "seconds": round(seconds, 3),
        },
    )


def _numbers(one: Mapping[str, Any]) -> dict[str, float | None]:
    """Return what was found, and the limit that it broke or has to stay below."""
    found, low, high = one["found"], one["low"], one["high"]
    below = found is not None and low is not None and found < low
    return {"found": found, "allowed": low if below or high is None else high}


suite_checks = [suite_check(table, asset) for table, asset in CHECKED.items()]
statistics_checks = [statistics_check(table, asset) for table, asset in CHECKED.items()]


@dg.asset_check(
    asset="published_bundle",
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
                f"nothing is published under {settings.bundle.root}", suggestion="launch the job `REINDEX`"
            )
        built = parse_time(manifest.created).timestamp()
        seen = context.instance.get_latest_materialization_event(dg.AssetKey("published_bundle"))
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
            description=verdict if fresh else f"{verdict}; see why no run of `REINDEX` succeeded since, and launch one",
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
