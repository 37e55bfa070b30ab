"""Runs of Great Expectations: the suites of `schemas` over frames, and the keeping and display of its results.

Only this module imports it, inside functions: that costs three CPU-seconds and 250 MB, once a process. A context is
ephemeral, so that nothing of one run reaches the next, and nothing is sent anywhere.
"""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codequarry.pipelines.store.workspace import replacing
from codequarry.schemas.errors import CodequarryError, NotFoundError
from codequarry.schemas.gates.expectation import EXAMPLES, Expectation, Outcome, Suite, example_of, shown_columns
from codequarry.schemas.install_hints import missing_extra

if TYPE_CHECKING:
    import duckdb
    from great_expectations.data_context.data_context.ephemeral_data_context import EphemeralDataContext

_DATA = "codequarry"
_SITE = "codequarry"


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """Findings of Great Expectations for one table."""

    suite: Suite
    outcomes: tuple[Outcome, ...]
    document: dict[str, Any]
    """Its own result document, as JSON holds it."""

    @property
    def passed(self) -> bool:
        return all(outcome.passed for outcome in self.outcomes)


def run_suites(connection: duckdb.DuckDBPyConnection, suites: Iterable[Suite]) -> tuple[SuiteResult, ...]:
    """Run suites over the frames that `build_frames` made in the session.

    Args:
        connection: Session with the frames.
        suites: Suites to run.

    Returns:
        Results by suite.

    Raises:
        MissingExtraError: Great Expectations is not installed.
        CodequarryError: It could not run an expectation, which it would otherwise report as failed.
    """
    with _quiet():
        context = _context()
        return tuple(_run(context, connection, suite) for suite in suites)


def _run(context: EphemeralDataContext, connection: duckdb.DuckDBPyConnection, suite: Suite) -> SuiteResult:
    import great_expectations as gx

    frame = connection.sql(f"SELECT * FROM frames.{suite.table} ORDER BY {', '.join(suite.key)}").df()
    asset = context.data_sources.pandas_default.add_dataframe_asset(suite.table)
    definition = gx.ValidationDefinition(
        name=suite.table,
        data=asset.add_batch_definition_whole_dataframe(suite.table),
        suite=context.suites.add(_gx_suite(suite)),
    )
    result: Any = context.validation_definitions.add(definition).run(
        batch_parameters={"dataframe": frame},
        result_format={
            "result_format": "SUMMARY",
            "unexpected_index_column_names": list(suite.key),
            "partial_unexpected_count": EXAMPLES,
        },
    )
    by_name = {found.expectation_config.meta["gate"]: found for found in result.results}
    outcomes = tuple(_outcome(suite, each, by_name[each.name], len(frame)) for each in suite.expectations)
    return SuiteResult(suite, outcomes, result.to_json_dict())


def _gx_suite(suite: Suite) -> Any:
    import great_expectations as gx
    from great_expectations.expectations.registry import get_expectation_impl

    made: list[Any] = []
    for each in suite.expectations:
        arguments = {**each.arguments, **({"mostly": each.mostly} if each.mostly < 1 else {})}
        made.append(get_expectation_impl(each.type)(**arguments, meta={"gate": each.name}, notes=each.name))
    return gx.ExpectationSuite(name=suite.table, expectations=made)


def _outcome(suite: Suite, expectation: Expectation, found: Any, rows: int) -> Outcome:
    raised = _exception(found.exception_info)
    if raised:
        raise CodequarryError(
            f"Great Expectations could not ask {suite.table} for {expectation.name!r}: {raised}",
            suggestion="this is a fault of codequarry or of the installed great_expectations: report it",
        )
    result = found.result
    broken = int(result.get("unexpected_count", 0))
    names = shown_columns(suite, expectation)
    listed = result.get("partial_unexpected_index_list") or ()
    examples = tuple(example_of({name: row[name] for name in names if name in row}) for row in listed[:EXAMPLES])
    outcome = Outcome(expectation, rows, broken, examples)
    if outcome.passed != bool(found.success):
        raise CodequarryError(
            f"Great Expectations says {found.success} of {expectation.name!r}, with {broken} of {rows} rows broken",
            suggestion="this is a fault of codequarry or of the installed great_expectations: report it",
        )
    return outcome


def _exception(info: Mapping[str, Any] | None) -> str:
    """Return the message of an exception raised by an expectation; its result holds it directly or by metric."""
    for each in [info] if "raised_exception" in (info or {}) else (info or {}).values():
        if each and each.get("raised_exception"):
            return str(each.get("exception_message"))
    return ""


def documents_folder(work: Path) -> Path:
    """Return the folder of the last result documents: in the work folder, since they hold times and no bundle may."""
    return work / "gates"


def keep(results: Iterable[SuiteResult], folder: Path) -> None:
    """Write the result document of each table into a folder, and replace the one before."""
    for result in results:
        with replacing(folder / f"{result.suite.table}.json") as temporary:
            temporary.write_text(json.dumps(result.document, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def build_docs(documents: Path, site: Path) -> Path:
    """Build the Data Docs of the result documents in a folder.

    Args:
        documents: Folder of the result documents.
        site: Folder of the pages.

    Returns:
        The page to open.

    Raises:
        NotFoundError: There are no documents.
        MissingExtraError: Great Expectations is not installed.
    """
    files = sorted(documents.glob("*.json"))
    if not files:
        raise NotFoundError(
            f"found no result document in {documents}, expected one for each table",
            suggestion="run `codequarry gates check`, or the Dagster job once",
        )
    with _quiet():
        context = _context()
        from great_expectations.core import ExpectationSuiteValidationResult
        from great_expectations.core.expectation_validation_result import expectationSuiteValidationResultSchema
        from great_expectations.core.run_identifier import RunIdentifier
        from great_expectations.data_context.types.resource_identifiers import (
            ExpectationSuiteIdentifier,
            ValidationResultIdentifier,
        )

        for file in files:
            loaded = expectationSuiteValidationResultSchema.load(json.loads(file.read_text(encoding="utf-8")))
            result: Any = ExpectationSuiteValidationResult(**loaded) if isinstance(loaded, dict) else loaded
            run = RunIdentifier(run_name=result.meta["run_id"]["run_name"], run_time=result.meta["run_id"]["run_time"])
            key = ValidationResultIdentifier(
                expectation_suite_identifier=ExpectationSuiteIdentifier(name=file.stem),
                run_id=run,
                batch_identifier=file.stem,
            )
            context.validation_results_store.set(key, result)
        return _site(context, site)


def _site(context: EphemeralDataContext, folder: Path) -> Path:
    context.add_data_docs_site(
        _SITE,
        {
            "class_name": "SiteBuilder",
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
            "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder.absolute())},
        },  # pyright: ignore[reportArgumentType]
    )
    context.build_data_docs(site_names=[_SITE])
    return folder / "index.html"


def _context() -> EphemeralDataContext:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    try:
        import great_expectations as gx
    except ModuleNotFoundError as error:
        raise missing_extra("the expectation suites", "build", missing=error.name) from None
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )
    return gx.get_context(mode="ephemeral", project_config=config)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the warnings of its import and its log, which repeats our messages."""
    logger = logging.getLogger("great_expectations")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
