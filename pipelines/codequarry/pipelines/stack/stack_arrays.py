"""The arrays of ``stack/``: hidden files, and the places that name what is defined on the other side."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# Arrow ships no type stubs.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from codequarry.pipelines.stack.changes import Changes
from codequarry.pipelines.store.parts import MENTIONS
from codequarry.pipelines.store.workspace import RepositoryWork
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.stack import DEAD, HIDDEN, LOST, NAMES, PLACE, PLACES, STRINGS, SUCCESSORS
from codequarry.schemas.catalog.symbol_views import LINKED
from codequarry.serving.catalog.chunk_arrays import RowIndex, Strings

_HIDDEN_FILES = "CREATE TEMP TABLE hidden AS SELECT file, repo FROM base.files_mat JOIN hidden_paths USING (repo, path)"
_DEFINED = """
CREATE TEMP TABLE own_names AS SELECT DISTINCT repo, name, name_id FROM own.symbols_mat;
CREATE TEMP TABLE concerned AS
SELECT name FROM own_names
UNION SELECT name FROM {mentions}
UNION SELECT name FROM base.symbols_mat WHERE file IN (SELECT file FROM hidden);
CREATE TEMP TABLE base_names AS
SELECT repo, name, any_value(name_id) AS name_id, bool_or(file NOT IN (SELECT file FROM hidden)) AS live
FROM base.symbols_mat WHERE name IN (SELECT name FROM concerned) GROUP BY repo, name
"""
"""Names of definitions on both sides. Of the base only those that a changed file defines, defined or names: the other
ones are as they were."""
_NAMES = """
SELECT DISTINCT own_names.name_id, base_names.name_id FROM own_names JOIN base_names USING (name) ORDER BY ALL
"""
_DEAD = """
SELECT name_id, first, last FROM base_names
JOIN (SELECT repo, min(file) AS first, max(file) AS last FROM base.files_mat GROUP BY repo) USING (repo)
WHERE NOT live AND (repo, name) NOT IN (SELECT (repo, name) FROM own_names) ORDER BY ALL
"""
_BY_BASE = """
SELECT repo, name, name_id FROM base_names WHERE live AND (repo, name) NOT IN (SELECT (repo, name) FROM own_names)
"""
"""Names that live files of the base alone define."""
_BY_OWN = "SELECT repo, name, name_id FROM own_names WHERE (repo, name) NOT IN (SELECT (repo, name) FROM base_names)"
"""Names that no file of the base defines."""
# A symbol may be defined several times under one name, and several symbols of a file may have the same: overloads.
_GONE = """
CREATE TEMP TABLE gone AS
SELECT target_id, repo, path, name, qualified_name, start_byte FROM base.symbols_mat
WHERE precise AND file IN (SELECT file FROM hidden);
CREATE TEMP TABLE successors AS
WITH one AS (
    SELECT repo, path, qualified_name, target_id,
           row_number() OVER (PARTITION BY repo, path, qualified_name ORDER BY min(start_byte), target_id) AS position
    FROM gone GROUP BY repo, path, qualified_name, target_id
),
each AS (SELECT repo, path, qualified_name, list(target_id ORDER BY position) AS targets FROM one GROUP BY ALL)
SELECT symbol_id AS own_id, targets[least(len(targets), row_number() OVER (
           PARTITION BY repo, path, qualified_name ORDER BY start_byte, symbol_id
       ))] AS target_id
FROM own.symbols_mat JOIN each USING (repo, path, qualified_name);
CREATE TEMP TABLE lost AS
SELECT DISTINCT target_id, name FROM gone WHERE target_id NOT IN (SELECT target_id FROM successors)
AND target_id NOT IN (SELECT target_id FROM base.symbols_mat WHERE precise AND file NOT IN (SELECT file FROM hidden))
"""
"""Precise definitions of the hidden files, what takes their place, and what nothing defines any more."""
_FREED = """
CREATE TEMP TABLE freed AS
SELECT DISTINCT file, start_line, start_column, name
FROM base.occurrences_mat JOIN lost USING (target_id) WHERE precise AND file NOT IN (SELECT file FROM hidden)
"""
"""Places in files of the base whose symbol is lost, with its name."""
_FREED_NAMES = """
SELECT repo, name, coalesce(own.name_id + {definitions}, base.name_id) AS target_id, true AS freed
FROM (SELECT DISTINCT repo, name FROM freed JOIN base.files_mat USING (file))
LEFT JOIN (SELECT DISTINCT name, name_id FROM own_names) AS own USING (name)
LEFT JOIN (SELECT name, any_value(name_id) AS name_id, bool_or(live) AS live FROM base_names GROUP BY name) AS base
USING (name)
WHERE live OR own.name_id IS NOT NULL
"""
"""Names of lost symbols that something still has, by the repositories that use them."""
_UNKNOWN = """
CREATE OR REPLACE TEMP TABLE ast_references AS
SELECT * FROM ast_references ANTI JOIN (
    SELECT file AS in_file, start_line, start_column FROM base.occurrences_mat
    WHERE precise AND file IN (SELECT in_file FROM ast_references) AND target_id NOT IN (SELECT target_id FROM lost)
) USING (in_file, start_line, start_column)
WHERE NOT freed OR (in_file, start_line, start_column, name) IN (
    SELECT (file, start_line, start_column, name) FROM freed
)
"""
"""Takes the identifiers out of which SCIP knows what they are, and those of lost names where these are not meant."""


def hidden_chunks(base: BundlePaths, hidden: Mapping[str, frozenset[str]]) -> dict[str, int]:
    """Return the number of chunks of hidden files, by repository.

    Args:
        base: Paths of the base.
        hidden: Hidden paths by repository.

    Returns:
        Counts by repository.
    """
    index = RowIndex.open(base.rows)
    counted = {repo: sum(len(index.rows_of_file(repo, path)) for path in paths) for repo, paths in hidden.items()}
    return {repo: count for repo, count in counted.items() if count}


def write_stack(paths: BundlePaths, base: BundlePaths, changes: Sequence[Changes]) -> None:
    """Write ``stack/`` of a delta version whose other files are complete.

    Args:
        paths: Paths of the delta version.
        base: Paths of its base.
        changes: Differences of every repository.
    """
    paths.stack.mkdir()
    with _session(base, {each.work.path.name: each.hidden for each in changes}, own=paths) as connection:
        base_rows = RowIndex.open(base.rows)
        precise = bool(base_rows.chunks["scip"].any())
        connection.execute(_DEFINED.format(mentions=_mentions([each.work for each in changes]) or "own_names"))
        if precise:
            connection.execute(_GONE)
            connection.execute(_FREED)
        arrays = {
            HIDDEN: _numbers(connection, "SELECT file FROM hidden ORDER BY file", 1)[:, 0],
            STRINGS: _string_numbers(RowIndex.open(paths.rows), base_rows),
            NAMES: _numbers(connection, _NAMES, 2),
            DEAD: _numbers(connection, _DEAD, 3),
            PLACES: _places(connection, changes, precise=precise),
        }
        if precise:
            arrays[SUCCESSORS] = _numbers(connection, "SELECT own_id, target_id FROM successors ORDER BY ALL", 2)
            arrays[LOST] = _numbers(connection, "SELECT DISTINCT target_id FROM lost ORDER BY ALL", 1)[:, 0]
    for name, array in arrays.items():
        np.save(paths.stack / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)


@contextmanager
def _session(
    base: BundlePaths, hidden: Mapping[str, frozenset[str]], own: BundlePaths
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Connect to the catalogs of a base and of the version over it, with a table of hidden files."""
    rows = [(repo, path) for repo, paths in hidden.items() for path in sorted(paths)]
    table = pa.table({"repo": [repo for repo, _ in rows], "path": [path for _, path in rows]}).cast(
        pa.schema([("repo", pa.string()), ("path", pa.string())])
    )
    with closing(duckdb.connect()) as connection:
        connection.execute("SET threads = 1")
        for name, paths in {"base": base, "own": own}.items():
            connection.execute(f"ATTACH '{_escape_quotes(paths.catalog)}' AS {name} (READ_ONLY)")
        connection.register("hidden_paths", table)
        connection.execute(_HIDDEN_FILES)
        yield connection


def _places(connection: duckdb.DuckDBPyConnection, changes: Sequence[Changes], *, precise: bool) -> np.ndarray:
    """Return the places that name what only the other side defines, (p,) of `PLACE`.

    Args:
        connection: A session with tables of names.
        changes: Differences of every repository.
        precise: SCIP described files of the base.

    Returns:
        Places by target and place, in numbers of the stack.
    """
    files, chunks, definitions = (
        connection.execute(f"SELECT count(*) FROM base.{table}").fetchall()[0][0]
        for table in ("files_mat", "chunks_mat", "symbols_mat")
    )
    names = f"SELECT repo, name, name_id AS target_id, false AS freed FROM ({_BY_BASE})"
    own = _linked(connection, "own", names, [each.work for each in changes])
    own["file"] += files
    own["chunk"] += chunks
    own["enclosing"][own["enclosing"] >= 0] += definitions
    names = f"SELECT repo, name, name_id + {definitions} AS target_id, false AS freed FROM ({_BY_OWN})"
    if precise:
        freed = _FREED_NAMES.format(definitions=definitions)
        names = (
            f"SELECT repo, name, target_id, bool_and(freed) AS freed FROM ({names} UNION ALL {freed}) "
            "GROUP BY repo, name, target_id"
        )
    base = _linked(connection, "base", names, [each.base.work for each in changes], precise=precise)
    return np.sort(np.concatenate([own, base]), order=["target_id", "file", "start_line", "start_column", "roles"])


def _linked(
    connection: duckdb.DuckDBPyConnection,
    side: str,
    names: str,
    works: Sequence[RepositoryWork],
    *,
    precise: bool = False,
) -> np.ndarray:
    """Return the places in live files of one side that name what the other one defines.

    Args:
        connection: A session with tables of names.
        side: The side with the places, base or own.
        names: SELECT of the repositories, names and targets of what they may name.
        works: Work folders with the identifiers of its files.
        precise: SCIP described files of that side; `names` says which of them are names of lost symbols.

    Returns:
        (p,) of `PLACE`, in numbers of that side, but for the targets.
    """
    connection.execute(f"CREATE OR REPLACE TEMP TABLE wanted AS {names}")
    repositories = {repo for (repo,) in connection.execute("SELECT DISTINCT repo FROM wanted").fetchall()}
    mentions = _mentions([work for work in works if work.path.name in repositories])
    if not mentions:
        return np.empty(0, PLACE)
    live = "true" if side == "own" else "file NOT IN (SELECT file FROM hidden)"
    # The scan asks for names alone: of most pages, no other column is then decoded.
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE mention AS SELECT * FROM {mentions} WHERE name IN (SELECT name FROM wanted)"
    )
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE ast_references AS SELECT mention.*, file AS in_file, freed FROM mention "
        f"JOIN wanted USING (repo, name) JOIN {side}.files_mat USING (repo, path) WHERE {live}"
    )
    if precise:
        connection.execute(_UNKNOWN)
    concerned = f"(SELECT file FROM {side}.files_mat JOIN ast_references USING (repo, path))"
    for table, columns in {"files_mat": "*", "symbols_mat": "*", "chunks_mat": "rowid AS rowid, *"}.items():
        connection.execute(
            f"CREATE OR REPLACE TEMP VIEW {table} AS SELECT {columns} FROM {side}.{table} WHERE file IN {concerned}"
        )
    connection.execute("CREATE OR REPLACE TEMP TABLE linked AS SELECT DISTINCT name, target_id FROM wanted")
    found = connection.execute(LINKED).fetchnumpy()
    places = np.empty(len(found["file"]), PLACE)
    for name in PLACE.names or ():
        places[name] = found[name]
    return places


def _mentions(works: Sequence[RepositoryWork]) -> str:
    """Return the SQL that reads the identifiers of some work folders; "" when there are none."""
    files = [file for work in works for file in work.tables(MENTIONS) if file.is_file()]
    listed = ", ".join(f"'{_escape_quotes(file)}'" for file in files)
    return f"read_parquet([{listed}])" if files else ""


def _numbers(connection: duckdb.DuckDBPyConnection, sql: str, width: int) -> np.ndarray:
    """Return the rows of a SELECT of numbers, (n, width) int32."""
    return np.array(connection.execute(sql).fetchall(), np.int32).reshape(-1, width)


def _string_numbers(own: RowIndex, base: RowIndex) -> np.ndarray:
    """Return the number in the base of every string of a delta version, or -1, (s,) int32."""
    known, strings = (Strings(each.strings, each.string_starts) for each in (base, own))
    return np.fromiter((known.find(text) for text in strings), np.int32, len(strings))


def _escape_quotes(path: Path) -> str:
    return str(path).replace("'", "''")
