"""Great Expectations over small tables: what it finds, what is kept of it, and pages that need no network."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from codequarry.pipelines.gates import great_expectations as gx_runs
from codequarry.pipelines.gates import kept_documents
from codequarry.pipelines.gates.great_expectations import NamedRun, TableStatistics, build_docs, run_suite_once
from codequarry.pipelines.gates.kept_documents import KEPT, SITE, all_documents
from codequarry.pipelines.gates.native_suites import NATIVE_SUITES, NativeExpectation, NativeSuite, vectors_suite
from codequarry.pipelines.gates.published_shares import PublishedShares, published_shares
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.bundle.tables import SCHEMAS, embeddings_schema
from codequarry.schemas.errors import CodequarryError, NotFoundError

SUITES = (*NATIVE_SUITES.values(), vectors_suite("faiss"))
_LONG = "repeat('x', 5000)"
_BROKEN = f"""
INSERT INTO files (repo, path, skip_reason, size_bytes, sha256)
 SELECT 'r', {_LONG} || n, 'N0 word', 0, '' FROM t, range(3);
INSERT INTO files (repo, path, skip_reason, size_bytes, sha256) SELECT 'r', 'p' || n, '', 500000, 'b' FROM t LIMIT 120;
INSERT INTO chunks (chunk_id, repo, path, lang, kind, doc, signature, content_sha256, text, start_line, end_line,
 qualified_name) SELECT n, 'r', 'a', 'go', 'K!nd', {_LONG}, {_LONG}, 'same', repeat('x', 30000), 0, 500, 'gone' FROM t;
INSERT INTO ast_nodes (repo, path, qualified_name, start_byte, name_start_byte, kind, doc, signature, start_line,
 end_line, parent) SELECT 'r', 'a', 'f', 1, 1, 'K!nd', {_LONG}, {_LONG}, 0, 500, 'gone' FROM t;
INSERT INTO ast_members SELECT * FROM ast_nodes;
INSERT INTO cst_nodes SELECT 'r', 'a', n, {_LONG}, 9000 FROM t;
INSERT INTO modules (repo, path, module, doc, imports, external, lines, comment_lines, fan_out)
 SELECT 'r', 'p' || n, '', {_LONG}, [], ['os'], 10, 9, 500 FROM t;
INSERT INTO scip_symbols (repo, path, symbol, kind, display_name, enclosing_symbol)
 SELECT 'r', 'a', 's' || n, 'K!nd', '', 'gone' FROM t;
INSERT INTO scip_occurrences (repo, path, symbol, start_byte, roles, is_definition, start_line, end_line, start_column,
 enclosing_start_byte) SELECT 'r', 'a', 's', n, 999, true, 5, 4, -1, -2 FROM t;
INSERT INTO embeddings SELECT n, [0.99, 0.99, 0.99] FROM t;
"""


def tables(rows: int) -> Callable[[], duckdb.DuckDBPyConnection]:
    def opened() -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect()
        connection.execute(f"CREATE TABLE t AS SELECT range AS n FROM range({rows})")
        for name, schema in (SCHEMAS | {"embeddings": embeddings_schema(3)}).items():
            empty = schema.empty_table()
            connection.register("empty", empty)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM empty")
            for column in schema.names:
                connection.execute(f"ALTER TABLE {name} ALTER {column} DROP NOT NULL")
        connection.execute(_BROKEN)
        return connection

    return opened


def run(suite: NativeSuite, folder: Path, rows: int = 1_000, second: int = 0, **others: object) -> TableStatistics:
    shares = others.get("shares", PublishedShares("nothing is published"))
    named = NamedRun(("r",), "run-1", datetime(2026, 1, 2, 3, 4, second, tzinfo=UTC))
    digest = str(others.get("digest", f"{rows:016d}"))
    return run_suite_once(tables(rows), suite, lambda: shares, named, folder, digest)  # type: ignore[arg-type]


def test_every_expectation_can_be_broken_and_says_what_was_found(tmp_path: Path) -> None:
    for suite in SUITES:
        document = run(suite, tmp_path).document
        held = [each["name"] for each in document.summary["found"] if each["passed"]]
        assert held == [], "an expectation that no table can break is none"
        assert not document.summary["not_asked"]
        assert all(each["found"] is not None and each["allowed"] for each in document.summary["found"])
        assert document.content["meta"]["run_id"]["run_name"] == "r (run-1)"


def test_of_empty_tables_nothing_is_asked(tmp_path: Path) -> None:
    for suite in SUITES:
        document = run(suite, tmp_path, rows=0).document
        assert document.passed
        assert document.summary["found"] == []


def test_of_few_rows_no_share_and_no_quantile_is_asked(tmp_path: Path) -> None:
    for suite in SUITES:
        if suite.table != "files":
            document = run(suite, tmp_path, rows=9).document
            assert set(document.summary["not_asked"]) == {each.name for each in suite.expectations if each.of_many}
            assert "not asked of so few rows" in document.note or not document.summary["not_asked"]


def test_distributions_are_compared_with_current(tmp_path: Path) -> None:
    suite = NATIVE_SUITES["cst_nodes"]
    alike, other = ({"x" * 5_000: 1.0}, {"x" * 5_000: 0.2, "y": 0.8})
    for second, (weights, passes) in enumerate(((alike, True), (other, False))):
        shares = PublishedShares("", "20260101T000000Z-aa", ("r",), {"kind": weights})
        summary = run(suite, tmp_path, second=second, shares=shares, digest=f"{second:016d}").document.summary
        (found,) = (each for each in summary["found"] if each["name"] == "divergence of kinds of leaves")
        assert found["passed"] is passes
        assert "version 20260101T000000Z-aa" in summary["against_current"]


def test_nothing_is_compared_where_nothing_is_published_or_little(tmp_path: Path) -> None:
    shares = published_shares(BundleRoot(tmp_path), NATIVE_SUITES["chunks"], ["r"])
    assert shares.sentence == "distributions are compared with nothing: no version is published"
    shares = PublishedShares("", "v", ("r",), {"kind": {"x": 1.0}})
    summary = run(NATIVE_SUITES["cst_nodes"], tmp_path, rows=10, shares=shares).document.summary
    assert "10 rows are of repositories in CURRENT" in summary["against_current"]


def test_a_large_table_is_sampled_alike_in_every_run_and_says_so(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(gx_runs, "SAMPLE_ROWS", 200)
    first = run(NATIVE_SUITES["cst_nodes"], tmp_path / "a").document
    second = run(NATIVE_SUITES["cst_nodes"], tmp_path / "b").document
    assert first.summary["rows"] == 1_000
    assert 100 < first.summary["looked_at"] == second.summary["looked_at"] < 300
    assert f"a sample of {first.summary['looked_at']} of 1,000 rows" in first.note


def test_rows_that_were_judged_are_not_judged_again(tmp_path: Path) -> None:
    suite = NATIVE_SUITES["modules"]
    first = run(suite, tmp_path)
    again = run_suite_once(
        pytest.fail, suite, pytest.fail, NamedRun((), "", datetime.now(UTC)), tmp_path, f"{1000:016d}"
    )
    assert (first.kept, again.kept) == (False, True)
    assert again.document.content == first.document.content
    assert first.page.is_file()
    assert again.page == first.page
    assert suite.digest({"a": "1"}) != suite.digest({"a": "2"}) != replace(suite, key=("path",)).digest({"a": "2"})


def test_the_last_documents_of_a_table_are_kept_with_their_pages(tmp_path: Path, monkeypatch) -> None:
    assert KEPT == 20
    monkeypatch.setattr(kept_documents, "KEPT", 2)
    for second in range(3):
        run(NATIVE_SUITES["modules"], tmp_path, second=second, digest=f"{second:016d}")
    assert [each.summary["time"][-8:-6] for each in all_documents(tmp_path)] == ["02", "01"]
    assert len(list((tmp_path / SITE / "modules").iterdir())) == 2


def test_an_expectation_that_cannot_run_is_an_error_and_no_failed_check(tmp_path: Path) -> None:
    nonsense = NativeExpectation(
        "nothing", "expect_column_values_to_match_regex", {"column": "path", "regex": "("}, high=0
    )
    suite = replace(NATIVE_SUITES["modules"], expectations=(nonsense,))
    with pytest.raises(CodequarryError, match="could not ask modules for 'nothing'"):
        run(suite, tmp_path)


def test_the_pages_are_readable_without_a_network(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="found no result document"):
        build_docs(tmp_path, tmp_path / SITE)
    for suite in SUITES:
        run(suite, tmp_path)
    index = build_docs(tmp_path, tmp_path / "pages")
    listed = index.read_text(encoding="utf-8")
    for suite in SUITES:
        (page,) = (tmp_path / "pages" / suite.table).glob("*.html")
        text = page.read_text(encoding="utf-8")
        assert page.relative_to(tmp_path / "pages").as_posix() in listed
        assert "Failed" in text
        assert not re.search(r"<(script|link|img|iframe)\b|url\(|@import|https?://", text)
        assert re.search(r"<body><p>[13],[01][02]0 rows; nothing is published</p>", text)


def test_no_context_outlives_its_run(tmp_path: Path, monkeypatch) -> None:
    """Two runs of one process, as in a Dagster daemon, do not meet; and nothing is written outside."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    one, two = (run(NATIVE_SUITES["modules"], tmp_path / name) for name in "ab")
    assert one.document.summary == two.document.summary
    assert list((tmp_path / "here").iterdir()) == []
