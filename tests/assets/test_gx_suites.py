"""Great Expectations and SQL read one record: over broken tables both count the same rows. And the pages of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from codequarry.pipelines.gates import great_expectations as gx_suites
from codequarry.pipelines.gates.great_expectations import build_docs, keep, run_suites
from codequarry.schemas.bundle.tables import SCHEMAS, embeddings_schema, schema_hash
from codequarry.schemas.errors import CodequarryError, NotFoundError
from codequarry.schemas.gates.expectation import BETWEEN, Expectation, Suite, build_frames, run_suite
from codequarry.schemas.gates.suites import OF_TABLES, embeddings_suite

DIM = 3
SUITES = (*OF_TABLES, embeddings_suite("faiss", DIM))
_HASH = "'" + "a" * 64 + "'"
_BROKEN = f"""
INSERT INTO files (repo, path, lang, path_class, size_bytes, lines, sha256, encoding, skip_reason, parsed) VALUES
 ('r', 'a.py', 'python', 'source', 30, 3, {_HASH}, 'utf-8', '', true),
 ('r', 'a.py', 'python', 'source', 30, 3, {_HASH}, 'utf-8', '', true),
 ('r', 'b.py', 'klingon', 'attic', 0, -1, '', 'utf-9', '', true),
 ('r', 'c.png', '', 'source', -3, 0, '', '', 'binary', false);
INSERT INTO chunks (chunk_id, repo, path, lang, kind, start_byte, end_byte, start_line, end_line, content_sha256, text,
 symbols) VALUES
 (1, 'r', 'a.py', 'python', 'block', 0, 10, 0, 1, {_HASH}, 'x', []),
 (1, 'r', 'a.py', 'go', 'block', 12, 11, 2, 1, 'short', '', []),
 (-4, 'r', 'a.py', 'python', 'block', -2, 40, -1, 3, {_HASH}, 'y', []),
 (5, 'r', 'gone.py', 'python', 'block', 0, 4, 0, 0, {"'" + "b" * 64 + "'"}, 'z', []);
INSERT INTO ast_nodes (repo, path, qualified_name, name, kind, start_byte, end_byte, start_line, end_line,
 name_start_byte, name_start_column, chunk_id) VALUES
 ('r', 'a.py', 'f', 'f', 'function', 2, 8, 0, 1, 3, 1, 1), ('r', 'a.py', 'g', '', 'function', 20, 90, 5, 1, 3, 1, 1),
 ('r', 'c.py', 'h', 'h', '', 0, 1, 0, 0, 0, -1, 7);
INSERT INTO cst_nodes VALUES ('r', 'a.py', 1, 'name', 2), ('r', 'a.py', 1, 'name', 0), ('r', 'a.py', 9, '', 1);
INSERT INTO modules (repo, path, lang, resolved, lines, code_lines, comment_lines, definitions, branches, fan_in,
 fan_out) VALUES
 ('r', 'a.py', 'python', ['a.py', 'no.py', 'nil.py'], 3, 2, 1, 2, 0, 1, -1),
 ('r', 'a.py', 'python', [], 9, 9, 9, 9, 0, 0, 0), ('r', 'd.md', 'markdown', [], 1, 1, 0, 0, 0, 0, 0);
INSERT INTO scip_symbols (repo, path, symbol) VALUES ('r', '', 'out'), ('r', '', 'out'), ('r', 'a.py', ''),
 ('r', 'd.md', 'lost');
INSERT INTO scip_documents (repo, path, symbols) VALUES ('r', 'a.py', 1);
INSERT INTO scip_occurrences (repo, path, symbol, start_byte, end_byte, roles, is_definition, is_import, is_write,
 is_read, is_generated, is_test) VALUES
 ('r', 'a.py', 'f', 0, 99, 1, true, false, false, false, false, false),
 ('r', 'a.py', '', 4, 3, 9, true, false, false, true, false, false),
 ('r', 'zz.py', 'f', 0, 1, 2, false, false, true, false, false, false);
INSERT INTO faiss_idmap VALUES (0, 1), (2, 1), (3, 77);
INSERT INTO embeddings VALUES (1, [1, 0, 0]), (1, [1, 0, 0]), (5, [1, 0, 0]), (8, [0.5, 0.5, 0.5]),
 (-4, ['nan'::FLOAT, 0, 0]), (9, [1, 0]);
"""


def tables(broken: bool) -> duckdb.DuckDBPyConnection:
    """Empty tables of the schemas, or ones in which every expectation is broken, and their frames."""
    connection = duckdb.connect()
    schemas = {name: SCHEMAS[name] for name in SCHEMAS} | {"embeddings": embeddings_schema(DIM)}
    for name, schema in schemas.items():
        empty = schema.empty_table()
        assert schema_hash(empty.schema) == schema_hash(schema)
        connection.register("empty", empty)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM empty")
    connection.execute("ALTER TABLE embeddings ALTER vector TYPE FLOAT[]")
    connection.execute("CREATE TABLE faiss_idmap (faiss_row BIGINT, chunk_id BIGINT)")
    if broken:
        connection.execute(_BROKEN)
    build_frames(connection, SUITES)
    return connection


@pytest.fixture
def broken() -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(tables(broken=True)) as connection:
        yield connection


def test_both_readers_count_the_same_rows_of_broken_tables(broken: duckdb.DuckDBPyConnection) -> None:
    by_gx = {each.suite.table: each for each in run_suites(broken, SUITES)}
    for suite in SUITES:
        by_sql = run_suite(broken, suite)
        assert [(each.expectation.name, each.rows, each.broken) for each in by_gx[suite.table].outcomes] == [
            (each.expectation.name, each.rows, each.broken) for each in by_sql
        ]
        never = [each.expectation.name for each in by_sql if not each.broken]
        assert never == [], "an expectation that no row can break is none"
        assert all(each.examples for each in (*by_sql, *by_gx[suite.table].outcomes))
        assert not by_gx[suite.table].passed


def test_empty_tables_break_nothing() -> None:
    with closing(tables(broken=False)) as connection:
        assert all(result.passed for result in run_suites(connection, SUITES))
        assert all(each.passed for suite in SUITES for each in run_suite(connection, suite))


def test_examples_name_the_row_and_what_is_wrong_with_it(broken: duckdb.DuckDBPyConnection) -> None:
    found = {each.expectation.name: each for each in run_suite(broken, SUITES[1])}
    gaps = found["bytes of indexed files covered not exactly once"]
    assert gaps.examples[0].startswith("chunk_id=-4 repo=r path=a.py gap=")
    assert found["duplicate chunk ids"].examples[-1] == "chunk_id=1 repo=r path=a.py"


@pytest.mark.parametrize(("mostly", "passes"), [(0.6, True), (0.7, False)])
def test_a_share_is_judged_alike(mostly: float, passes: bool) -> None:
    with closing(duckdb.connect()) as connection:
        connection.execute("CREATE TABLE t AS SELECT range AS n FROM range(3)")
        rule = Expectation("too large", BETWEEN, {"column": "n", "max_value": 1}, mostly)
        suite = Suite("t", "SELECT n FROM t", (rule,), key=("n",))
        build_frames(connection, (suite,))
        (by_gx,) = run_suites(connection, (suite,))
        (by_sql,) = run_suite(connection, suite)
    assert (by_gx.outcomes[0].passed, by_sql.passed) == (passes, passes)
    assert by_sql.count_text == "33.3 % (1 of 3)"


def test_an_expectation_that_cannot_run_is_an_error_and_no_failed_check(broken: duckdb.DuckDBPyConnection) -> None:
    suite = replace(SUITES[0], expectations=(Expectation("nothing", BETWEEN, {"column": "ghost", "min_value": 0}),))
    with pytest.raises(CodequarryError, match=r"could not ask files for 'nothing'.*ghost"):
        run_suites(broken, (suite,))


def test_the_pages_show_every_table_with_its_failures(broken: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="found no result document"):
        build_docs(tmp_path, tmp_path / "site")
    keep(run_suites(broken, SUITES), tmp_path)
    index = build_docs(tmp_path, tmp_path / "site")
    text = index.read_text(encoding="utf-8")
    for suite in SUITES:
        (page,) = (tmp_path / "site").rglob(f"{suite.table}.html")
        assert str(page.relative_to(tmp_path / "site")) in text
        assert "Failed" in page.read_text(encoding="utf-8")


def test_the_command_asks_a_published_version_and_builds_the_pages(first_run, tmp_path: Path) -> None:
    workbench, _ = first_run
    shutil.copytree(workbench.folder, tmp_path / "project")

    def gates(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "codequarry.pipelines.cli", "gates", *arguments],
            cwd=tmp_path / "project", capture_output=True, text=True, check=False,
        )  # fmt: skip

    done = gates("check", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["version"] == workbench.manifest.version
    assert {row["table"] for row in report["gates"]} == {suite.table for suite in SUITES}
    assert all(row["passed"] for row in report["gates"])
    done = gates("docs", "--out", "pages")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "project" / "pages" / "index.html").is_file()


def test_no_context_outlives_its_run(broken: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch) -> None:
    """Two runs of one process, as in a Dagster daemon, do not meet; and nothing is written outside."""
    monkeypatch.chdir(tmp_path)
    first, second = run_suites(broken, SUITES[:1]), run_suites(broken, SUITES[:1])
    assert first[0].outcomes == second[0].outcomes
    assert list(tmp_path.iterdir()) == []
    assert gx_suites._context().list_data_docs_sites() == {}
