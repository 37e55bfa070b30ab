"""The suites over broken tables: every expectation counts the rows that break it, as plain Python counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import duckdb
import pytest

from codequarry.schemas.bundle.tables import SCHEMAS, embeddings_schema, schema_hash
from codequarry.schemas.gates.expectation import (
    AMONG,
    BETWEEN,
    UNIQUE,
    Expectation,
    Suite,
    build_frames,
    run_suite,
)
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
INSERT INTO chunks (chunk_id, repo, path, lang, kind, start_byte, end_byte, start_line, end_line, comment_percent,
 content_sha256, text, symbols) VALUES
 (1, 'r', 'a.py', 'python', 'block', 0, 10, 0, 1, 40, {_HASH}, 'x', []),
 (1, 'r', 'a.py', 'go', 'block', 12, 11, 2, 1, 101, 'short', '', []),
 (-4, 'r', 'a.py', 'python', 'block', -2, 40, -1, 3, -1, {_HASH}, 'y', []),
 (5, 'r', 'gone.py', 'python', 'block', 0, 4, 0, 0, 0, {"'" + "b" * 64 + "'"}, 'z', []);
INSERT INTO ast_nodes (repo, path, qualified_name, name, kind, start_byte, end_byte, start_line, end_line,
 name_start_byte, name_start_column, chunk_id) VALUES
 ('r', 'a.py', 'f', 'f', 'function', 2, 8, 0, 1, 3, 1, 1), ('r', 'a.py', 'g', '', 'function', 20, 90, 5, 1, 3, 1, 1),
 ('r', 'c.py', 'h', 'h', '', 0, 1, 0, 0, 0, -1, 7);
INSERT INTO ast_members SELECT * FROM ast_nodes;
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


def counted_by_python(connection: duckdb.DuckDBPyConnection, suite: Suite, expectation: Expectation) -> int:
    rows = connection.execute(f"SELECT {', '.join(expectation.columns)} FROM frames.{suite.table}").fetchall()
    if expectation.type == UNIQUE:
        counts = Counter(rows)
        return sum(counts[row] > 1 for row in rows)
    if expectation.type == AMONG:
        return sum(value not in expectation.values for (value,) in rows)
    low, high = expectation.low, expectation.high
    return sum((low is not None and value < low) or (high is not None and value > high) for (value,) in rows)


def test_sql_counts_the_rows_that_break_each_expectation(broken: duckdb.DuckDBPyConnection) -> None:
    for suite in SUITES:
        by_sql = run_suite(broken, suite)
        assert [each.broken for each in by_sql] == [
            counted_by_python(broken, suite, each.expectation) for each in by_sql
        ]
        never = [each.expectation.name for each in by_sql if not each.broken]
        assert never == [], "an expectation that no row can break is none"
        assert all(each.examples for each in by_sql)


def test_empty_tables_break_nothing() -> None:
    with closing(tables(broken=False)) as connection:
        assert all(each.passed for suite in SUITES for each in run_suite(connection, suite))


def test_examples_name_the_row_and_what_is_wrong_with_it(broken: duckdb.DuckDBPyConnection) -> None:
    found = {each.expectation.name: each for each in run_suite(broken, SUITES[1])}
    gaps = found["bytes of indexed files covered not exactly once"]
    assert gaps.examples[0].startswith("chunk_id=-4 repo=r path=a.py gap=")
    assert found["duplicate chunk ids"].examples[-1] == "chunk_id=1 repo=r path=a.py"


@pytest.mark.parametrize(("mostly", "passes"), [(0.6, True), (0.7, False)])
def test_a_share_may_break_an_expectation(mostly: float, passes: bool) -> None:
    with closing(duckdb.connect()) as connection:
        connection.execute("CREATE TABLE t AS SELECT range AS n FROM range(3)")
        rule = Expectation("too large", BETWEEN, ("n",), high=1, mostly=mostly)
        suite = Suite("t", "SELECT n FROM t", (rule,), key=("n",))
        build_frames(connection, (suite,))
        (outcome,) = run_suite(connection, suite)
    assert outcome.passed == passes
    assert outcome.count_text == "33.3 % (1 of 3)"
