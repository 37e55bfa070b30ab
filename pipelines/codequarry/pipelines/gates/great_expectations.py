"""Runs of Great Expectations over the rows of a table, and the pages of its results.

Only this module imports it, inside functions: that costs three CPU-seconds and 250 MB, once a process. Rows that have
not changed since their last document are answered from that document, without the import. A context is ephemeral, so
that nothing of one run reaches the next, and nothing is sent anywhere.
"""

from __future__ import annotations

import importlib
import logging
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codequarry.pipelines.gates.kept_documents import SITE, KeptDocument, all_documents, document_of, keep_document
from codequarry.pipelines.gates.native_suites import NativeExpectation, NativeSuite, divergence
from codequarry.pipelines.gates.offline_pages import offline_page, write_index, write_page
from codequarry.pipelines.gates.published_shares import MIN_ROWS, PublishedShares
from codequarry.schemas.errors import CodequarryError, NotFoundError
from codequarry.schemas.gates.expectation import EXAMPLES
from codequarry.schemas.install_hints import missing_extra

if TYPE_CHECKING:
    import duckdb
    from great_expectations.data_context.data_context.ephemeral_data_context import EphemeralDataContext

SAMPLE_ROWS = 200_000
"""Rows of larger tables that are looked at, about: those with the smallest hashes of their key."""
FEWEST_ROWS = 100
"""Rows without which shares, quantiles and means are not asked for: an edit would change them."""
_NAMED = 3
"""Repositories that the name of a run spells out."""
_NOT_NULL = "expect_column_values_to_not_be_null"


@dataclass(frozen=True, slots=True)
class NamedRun:
    """Name of a run and what it looked at, for its result documents."""

    repositories: tuple[str, ...]
    identifier: str
    """Dagster's id of the run, or the version that was asked."""
    time: datetime

    @property
    def name(self) -> str:
        """Name for people.

        >>> NamedRun(("a", "b", "c", "d"), "0b5e1c7e-7c33", datetime.now(UTC)).name
        'a, b, c and 1 more (0b5e1c7e-7c33)'
        """
        named = ", ".join(self.repositories[:_NAMED])
        more = f" and {len(self.repositories) - _NAMED} more" if len(self.repositories) > _NAMED else ""
        return f"{named}{more} ({self.identifier})"


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """A document, and whether this run made it."""

    document: KeptDocument
    kept: bool
    """The rows have not changed since an earlier run made it."""
    page: Path


def run_suite_once(
    tables: Callable[[], duckdb.DuckDBPyConnection],
    suite: NativeSuite,
    shares: Callable[[], PublishedShares],
    run: NamedRun,
    folder: Path,
    digest: str,
) -> TableStatistics:
    """Run a suite over tables, and keep its document; rows that were judged before are not judged again.

    Args:
        tables: Opens a session with the tables.
        suite: Suite to run.
        shares: Reads the shares of CURRENT.
        run: What the document says of the run.
        folder: Folder of the documents.
        digest: Digest of the rows and the suite.

    Returns:
        The document and its page.

    Raises:
        MissingExtraError: Great Expectations is not installed.
        CodequarryError: It could not run an expectation, which it would otherwise report as failed.
    """
    known = document_of(folder, suite.table, digest)
    if known is not None:
        return TableStatistics(known, True, known.page(folder / SITE))
    with _quiet():
        with closing(tables()) as connection:
            content, summary = _run(connection, suite, shares(), run)
        time = run.time.astimezone(UTC).strftime("%Y%m%dT%H%M%S%f")
        document = keep_document(folder, suite.table, content, summary, time, digest)
        page = document.page(folder / SITE)
        write_page(page, _rendered(document))
    return TableStatistics(document, False, page)


def build_docs(documents: Path, site: Path) -> Path:
    """Build the pages of the documents in a folder, and the page that lists them.

    Args:
        documents: Folder of the documents.
        site: Folder of the pages.

    Returns:
        The page to open.

    Raises:
        NotFoundError: There are no documents.
        MissingExtraError: Great Expectations is not installed.
    """
    found = all_documents(documents)
    if not found:
        raise NotFoundError(
            f"found no result document in {documents}, expected some for each table",
            suggestion="run `codequarry gates check`, or the Dagster job once",
        )
    with _quiet():
        _context()
        for document in found:
            write_page(document.page(site), _rendered(document))
    return write_index(site, found)


def _run(
    connection: duckdb.DuckDBPyConnection, suite: NativeSuite, shares: PublishedShares, run: NamedRun
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the document of a suite and our summary of it."""
    ((rows,),) = connection.execute(f"SELECT count(*) FROM ({suite.frame})").fetchall()
    frame = connection.sql(_sampled(suite, shares, rows)).df()
    comparisons, sentence = _comparisons(suite, shares, frame)
    asked: list[NativeExpectation] = []
    idle: list[NativeExpectation] = []
    for each in (*suite.expectations, *comparisons):
        held = len(frame) if each.type == _NOT_NULL else int(frame[each.column].notna().sum())
        (asked if held >= (FEWEST_ROWS if each.of_many else 1) else idle).append(each)
    result = _validated(suite, asked, frame, run)
    by_name = {each.expectation_config.meta["gate"]: each for each in result.results}
    summary = {
        "run": run.name,
        "repositories": list(run.repositories),
        "identifier": run.identifier,
        "time": run.time.astimezone(UTC).isoformat(timespec="seconds"),
        "rows": rows,
        "looked_at": len(frame),
        "against_current": sentence,
        "found": [_finding(suite, each, by_name[each.name]) for each in asked],
        "not_asked": [each.name for each in idle],
    }
    return result.to_json_dict(), summary


def _sampled(suite: NativeSuite, shares: PublishedShares, rows: int) -> str:
    """Return the SELECT of the rows that are looked at, with the columns that are compared with CURRENT."""
    listed = ", ".join("'{}'".format(name.replace("'", "''")) for name in shares.repositories)
    compared = "".join(
        f", CASE WHEN repo IN ({listed}) THEN {column} END AS {_compared(column)}" for column in shares.columns
    )
    sample = f" WHERE hash({', '.join(suite.key)}) % {rows} < {SAMPLE_ROWS}" if rows > SAMPLE_ROWS else ""
    return f"SELECT *{compared} FROM ({suite.frame}){sample} ORDER BY {', '.join(suite.key)}"


def _compared(column: str) -> str:
    return f"{column}_in_both"


def _comparisons(suite: NativeSuite, shares: PublishedShares, frame: Any) -> tuple[list[NativeExpectation], str]:
    if not shares.columns:
        return [], shares.sentence
    fewest = min(int(frame[_compared(column)].notna().sum()) for column in shares.columns)
    if fewest < MIN_ROWS:
        return [], f"distributions are compared with nothing: {fewest:,} rows are of repositories in CURRENT"
    return [
        divergence(suite.distributions[column], _compared(column), weights)
        for column, weights in shares.columns.items()
    ], shares.sentence


def _validated(suite: NativeSuite, asked: Sequence[NativeExpectation], frame: Any, run: NamedRun) -> Any:
    context = _context()
    import great_expectations as gx
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.expectations.registry import get_expectation_impl

    made: list[Any] = [
        get_expectation_impl(each.type)(**each.arguments, meta={"gate": each.name}, notes=each.name) for each in asked
    ]
    definition = context.data_sources.pandas_default.add_dataframe_asset(suite.table)
    batch = definition.add_batch_definition_whole_dataframe(suite.table).get_batch({"dataframe": frame})
    result = batch.validate(
        gx.ExpectationSuite(name=suite.table, expectations=made),
        result_format={
            "result_format": "SUMMARY",
            "unexpected_index_column_names": list(suite.key),
            "partial_unexpected_count": EXAMPLES,
        },
    )
    for each in result.results:
        each.success = bool(each.success)  # NumPy's for quantiles and means, which no JSON writer knows
    result.success = bool(result.success)
    result.meta["run_id"] = RunIdentifier(run_name=run.name, run_time=run.time)
    return result


def _finding(suite: NativeSuite, expectation: NativeExpectation, found: Any) -> dict[str, Any]:
    raised = _exception(found.exception_info)
    if raised:
        raise CodequarryError(
            f"Great Expectations could not ask {suite.table} for {expectation.name!r}: {raised}",
            suggestion="this is a fault of codequarry or of the installed great_expectations: report it",
        )
    value = _quantity(expectation, found.result)
    return {
        "name": expectation.name,
        "found": value if math.isfinite(value) else None,
        "allowed": expectation.allowed,
        "low": expectation.low,
        "high": expectation.high,
        "passed": bool(found.success),
        "examples": [str(each)[:100] for each in (found.result.get("partial_unexpected_list") or ())[:EXAMPLES]]
        if not found.success
        else [],
    }


def _quantity(expectation: NativeExpectation, result: Mapping[str, Any]) -> float:
    """Return what was found in the measure of the expectation's limits."""
    if "mostly" in expectation.arguments:
        return float(result["unexpected_percent"])
    if "observed_value" not in result:
        return float(result["unexpected_count"])
    observed = result["observed_value"]
    if isinstance(observed, Mapping):
        (observed,) = observed["values"]
    return float("nan" if observed is None else observed)


def _exception(info: Mapping[str, Any] | None) -> str:
    """Return the message of an exception raised by an expectation; its result holds it directly or by metric."""
    for each in [info] if "raised_exception" in (info or {}) else (info or {}).values():
        if each and each.get("raised_exception"):
            return str(each.get("exception_message"))
    return ""


def _rendered(document: KeptDocument) -> str:
    """Return the page of a document as Great Expectations renders it, for a browser without a network."""
    from great_expectations.core import ExpectationSuiteValidationResult
    from great_expectations.core.expectation_validation_result import expectationSuiteValidationResultSchema
    from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
    from great_expectations.render.view.view import DefaultJinjaPageView

    loaded = expectationSuiteValidationResultSchema.load(document.content)
    result: Any = ExpectationSuiteValidationResult(**loaded) if isinstance(loaded, dict) else loaded
    view: Any = DefaultJinjaPageView()
    html = view.render(ValidationResultsPageRenderer().render(result), data_context_id="", show_how_to_buttons=False)
    return offline_page(html, document.note)


def require_great_expectations() -> None:
    """Load Great Expectations, which sends nothing to its makers.

    Raises:
        MissingExtraError: It is not installed.
    """
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    try:
        with _quiet():
            importlib.import_module("great_expectations")
    except ModuleNotFoundError as error:
        raise missing_extra("the expectation suites", "dagster", missing=error.name) from None


def _context() -> EphemeralDataContext:
    require_great_expectations()
    import great_expectations as gx
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
