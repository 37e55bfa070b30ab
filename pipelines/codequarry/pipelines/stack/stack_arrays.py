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
from codequarry.schemas.bundle.stack import DEAD, HIDDEN, NAMES, PLACE, PLACES, STRINGS
from codequarry.schemas.catalog.symbol_views import LINKED
from codequarry.serving.catalog.chunk_arrays import RowIndex, Strings

_HIDDEN_FILES = "CREATE TEMP TABLE hidden AS SELECT file, repo FROM base.files_mat JOIN hidden_paths USING (repo, path)"
_DEFINED = """
CREATE TEMP TABLE base_names AS
SELECT repo, name, any_value(name_id) AS name_id, bool_or(file NOT IN (SELECT file FROM hidden)) AS live
FROM base.symbols_mat GROUP BY repo, name;
CREATE TEMP TABLE own_names AS SELECT DISTINCT repo, name, name_id FROM own.symbols_mat
"""
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
        connection.execute(_DEFINED)
        arrays = {
            HIDDEN: _numbers(connection, "SELECT file FROM hidden ORDER BY file", 1)[:, 0],
            STRINGS: _string_numbers(RowIndex.open(paths.rows), RowIndex.open(base.rows)),
            NAMES: _numbers(connection, _NAMES, 2),
            DEAD: _numbers(connection, _DEAD, 3),
            PLACES: _places(connection, changes),
        }
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


def _places(connection: duckdb.DuckDBPyConnection, changes: Sequence[Changes]) -> np.ndarray:
    """Return the places that name what only the other side defines, (p,) of `PLACE`.

    Args:
        connection: A session with tables of names.
        changes: Differences of every repository.

    Returns:
        Places by target and place, in numbers of the stack.
    """
    files, chunks, definitions = (
        connection.execute(f"SELECT count(*) FROM base.{table}").fetchall()[0][0]
        for table in ("files_mat", "chunks_mat", "symbols_mat")
    )
    own = _linked(connection, "own", _BY_BASE, [each.work for each in changes])
    own["file"] += files
    own["chunk"] += chunks
    own["enclosing"][own["enclosing"] >= 0] += definitions
    base = _linked(connection, "base", _BY_OWN, [each.base.work for each in changes])
    base["target_id"] += definitions
    return np.sort(np.concatenate([own, base]), order=["target_id", "file", "start_line", "start_column", "roles"])


def _linked(
    connection: duckdb.DuckDBPyConnection, side: str, names: str, works: Sequence[RepositoryWork]
) -> np.ndarray:
    """Return the places in live files of one side that name what the other one defines.

    Args:
        connection: A session with tables of names.
        side: The side with the places, base or own.
        names: SELECT of the repositories, names and numbers of what they may name.
        works: Work folders with the identifiers of its files.

    Returns:
        (p,) of `PLACE`, in numbers of that side, but for the targets.
    """
    connection.execute(f"CREATE OR REPLACE TEMP TABLE wanted AS {names}")
    repositories = {repo for (repo,) in connection.execute("SELECT DISTINCT repo FROM wanted").fetchall()}
    mentions = [file for work in works if work.path.name in repositories for file in work.tables(MENTIONS)]
    mentions = [file for file in mentions if file.is_file()]
    if not mentions:
        return np.empty(0, PLACE)
    listed = ", ".join(f"'{_escape_quotes(file)}'" for file in mentions)
    live = "true" if side == "own" else "file NOT IN (SELECT file FROM hidden)"
    # The scan asks for names alone: of most pages, no other column is then decoded.
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE mention AS "
        f"SELECT * FROM read_parquet([{listed}]) WHERE name IN (SELECT name FROM wanted)"
    )
    connection.execute(
        "CREATE OR REPLACE TEMP TABLE ast_references AS SELECT mention.* FROM mention "
        f"JOIN wanted USING (repo, name) JOIN {side}.files_mat USING (repo, path) WHERE {live}"
    )
    concerned = f"(SELECT file FROM {side}.files_mat JOIN ast_references USING (repo, path))"
    for table, columns in {"files_mat": "*", "symbols_mat": "*", "chunks_mat": "rowid AS rowid, *"}.items():
        connection.execute(
            f"CREATE OR REPLACE TEMP VIEW {table} AS SELECT {columns} FROM {side}.{table} WHERE file IN {concerned}"
        )
    connection.execute("CREATE OR REPLACE TEMP TABLE linked AS SELECT DISTINCT name, name_id AS target_id FROM wanted")
    found = connection.execute(LINKED).fetchnumpy()
    places = np.empty(len(found["file"]), PLACE)
    for name in PLACE.names or ():
        places[name] = found[name]
    return places


def _numbers(connection: duckdb.DuckDBPyConnection, sql: str, width: int) -> np.ndarray:
    """Return the rows of a SELECT of numbers, (n, width) int32."""
    return np.array(connection.execute(sql).fetchall(), np.int32).reshape(-1, width)


def _string_numbers(own: RowIndex, base: RowIndex) -> np.ndarray:
    """Return the number in the base of every string of a delta version, or -1, (s,) int32."""
    known, strings = (Strings(each.strings, each.string_starts) for each in (base, own))
    return np.fromiter((known.find(text) for text in strings), np.int32, len(strings))


def _escape_quotes(path: Path) -> str:
    return str(path).replace("'", "''")
