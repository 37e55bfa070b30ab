"""SQL of the DuckDB catalog, and the meanings of its tables and views.

Views read the version's Parquet files through the session variable ``bundle`` (the version's folder). Without the
variable they read relative paths, which DuckDB looks for in the current folder and in ``file_search_path``. So the file
opens read-only in any DuckDB shell: there, and elsewhere after the statement of ``open.sql``. It names no folder, so
that a copy finds its own files. A view may hold no subquery in a path, else it would ask ``bundle_folder`` itself.

What a request touches is materialized beside the views: look-ups through a
Parquet view cost about eight times as much as through a table. Chunks lie there in the order of their files, because
text search reads whole files. By id they are found in ``rows/``, which says where their texts are.

Row groups are small: the tables of symbols are sorted by what they are asked for, so that the minima and maxima of each
row group lead to the rows as an index would. Django's references cost 1 ms instead of 4. Those of definitions are the
smallest, because a row's strings are unpacked with their whole group.

``codequarry sql`` without a query prints the meanings. They and those of `column_meanings` are the comments of the
catalog's tables and columns, and make ``docs/CATALOG.md``. A delta version's catalog has none.
"""

# pyright: reportUnknownVariableType=false
# Arrow ships no type stubs.

from __future__ import annotations

from collections.abc import Iterable, Iterator

from codequarry.schemas.bundle.layout import FAISS_IDMAP_FILE
from codequarry.schemas.bundle.shards import SHARDED_TABLES
from codequarry.schemas.bundle.tables import DESCRIPTIONS, SCHEMAS
from codequarry.schemas.catalog import symbol_views as symbol_catalog
from codequarry.schemas.catalog.column_meanings import column_meanings

GROUPS: dict[str, dict[str, str]] = {
    "Files of the version": {
        **DESCRIPTIONS,
        "embeddings": "A row per chunk: its vector in the first dense leg.",
        "embeddings2": "A row per chunk: its vector in the second dense leg; only in versions of tier standard.",
        "faiss_idmap": "A row per vector of the dense indexes: which chunk it is of.",
        "v_documents": "`chunks` under the names that answers of the tools use.",
        "bundle_folder": "One row: the folder of the catalog that is open, for `open.sql`.",
        "v_faiss_join": "Chunks beside the rows of the dense index, by full join: any NULL is an error.",
    },
    "Materialized for requests": {
        "chunks_mat": "Chunks without their text, in the order of files and places; `rowid` is the `chunk` of others.",
        "files_mat": "Files by number, sorted by repository and path.",
        "symbols_mat": "A row per definition, the best of a name first; SCIP's and the syntax's are one row where "
        "their names start at the same byte.",
        "occurrences_mat": "A row per place that names something, definitions included, sorted by what it names.",
        "places_mat": "The same places, sorted by place.",
        "outside_mat": "Symbols that the bundle names and does not define, such as those of the standard library.",
        "relations_mat": 'SCIP\'s relationships, read "target_id is an <role> of related_id".',
        "faiss_idmap_mat": "`faiss_idmap` as a table, in the order of its rows.",
        "faiss_idmap_mat_meta": "One row: the id map that `faiss_idmap_mat` was made from.",
    },
    "Of the session": {
        "calls": "A row per call and function or type that it may mean, with the evidence.",
        "inherits": "A row per type and type that it extends or implements, with the evidence.",
        "tests_of": "A row per test file and source file or definition that it tests, with the reason.",
        "manifests": "A row per published version, the current one or not, whole or not.",
        "manifest_sources": "A row per version and repository.",
        "manifest_indexes": "A row per version and search index.",
        "pools": "Candidates of sampled searches, where the service keeps them (`telemetry.pools`).",
        "v_pool_rank_changes": "Queries that two versions were asked, and what became of each candidate's rank; needs "
        "`telemetry.queries`.",
        "v_pool_candidates": "`pools`, each candidate with its place in the version that is open.",
    },
}
"""Content of each table or view, by group."""


SET_BUNDLE = "SET VARIABLE bundle = (FROM bundle_folder)"
"""Points the views at the Parquet files beside the catalog that a DuckDB shell has opened."""

OPEN_SQL = f"""\
-- Lets the views of catalog.duckdb find the Parquet files beside it, whatever the current folder is:
--   duckdb -readonly <this folder>/catalog.duckdb -init <this folder>/open.sql
-- or, where catalog.duckdb is open: .read <this folder>/open.sql
-- What there is: SELECT view_name, comment FROM duckdb_views() WHERE NOT internal;
--                SELECT table_name, comment FROM duckdb_tables();
--                SELECT column_name, data_type, comment FROM duckdb_columns() WHERE table_name = 'chunks';
{SET_BUNDLE};
"""
"""Content of ``open.sql`` of every version."""


def _file(path: str) -> str:
    """Return the SQL of the path of a version's file.

    DuckDB's message about a missing file shows nothing but the pattern it looked for. So the relative pattern has the
    advice in it: in brackets, as alternatives to the letter that the name really has. DuckDB before 2.0 takes a
    pattern with a colon for an address.

    Args:
        path: Path or pattern in the version's folder.

    Returns:
        SQL expression.
    """
    first, slash, rest = path.partition("/")
    relative = f"{first[:-1]}[{first[-1]}; not in this folder, first run {SET_BUNDLE}]{slash}{rest}"
    return f"coalesce(getvariable('bundle') || '/{path}', '{relative}')"


def _rows(name: str, options: str = "") -> str:
    """Return the SQL that reads a table: ``chunks.parquet``, or its shards ``chunks.00.parquet`` and so on."""
    file = f"{name}.*parquet" if name in SHARDED_TABLES else f"{name}.parquet"
    return f"read_parquet({_file(f'tables/{file}')}{options})"


def _vectors(name: str) -> str:
    return f"SELECT chunk_id, vector::FLOAT[{{dim}}] AS vector FROM {_rows(name)}"


_IDMAP = _file(FAISS_IDMAP_FILE)

VIEWS: dict[str, str] = {
    **{name: f"SELECT * FROM {_rows(name)}" for name in SCHEMAS},
    "chunks": "SELECT * REPLACE (CASE content_sha256 WHEN '' THEN sha256(text) ELSE content_sha256 END "
    f"AS content_sha256) FROM {_rows('chunks')}",
    "embeddings": _vectors("embeddings"),
    "faiss_idmap": f"SELECT * FROM read_parquet({_IDMAP})",
    "v_faiss_join": "SELECT idmap.faiss_row, idmap.chunk_id AS idmap_chunk_id, chunks.* "
    "FROM faiss_idmap AS idmap FULL JOIN chunks USING (chunk_id)",
    "v_documents": "SELECT chunk_id AS id, repo || '/' || path AS uri, lang, kind, qualified_name AS symbol, symbols, "
    "start_line, end_line, start_byte, end_byte, left(text, 200) AS preview, text AS content FROM chunks",
    "bundle_folder": "SELECT parse_dirpath(path) AS folder FROM duckdb_databases() "
    "WHERE database_oid IN (SELECT database_oid FROM duckdb_views() WHERE view_name = 'bundle_folder') "
    "AND path IS NOT NULL ORDER BY database_name = current_database() DESC, database_name LIMIT 1",
}

SECOND_VIEWS: dict[str, str] = {"embeddings2": _vectors("embeddings2")}
"""Views of a version with a second dense index."""

TABLES: dict[str, str] = {
    "files_mat": symbol_catalog.FILES,
    "chunks_mat": "SELECT chunks.* EXCLUDE (signature, doc, content_sha256, text, filename), file, "
    "coalesce(try_cast(regexp_extract(filename, '[.]([0-9]+)[.]parquet$', 1) AS UTINYINT), 0) AS shard, "
    "strlen(text)::INTEGER AS text_bytes, coalesce(module, '') AS module, "
    "(repo, path) IN (SELECT (repo, path) FROM scip_documents) AS scip, "
    "chunk_id IN (SELECT chunk_id FROM cst_nodes) AS cst "
    f"FROM {_rows('chunks', ', filename = true')} AS chunks "
    "JOIN (SELECT repo, path, file FROM files_mat) USING (repo, path) "
    "LEFT JOIN (SELECT repo, path, module FROM modules) USING (repo, path) ORDER BY repo, path, start_byte",
    **symbol_catalog.TABLES,
    "faiss_idmap_mat": "SELECT faiss_row, chunk_id FROM faiss_idmap ORDER BY faiss_row",
    "faiss_idmap_mat_meta": "SELECT parse_filename(filename) AS parquet_path, sha256(content) AS parquet_sha256, "
    "(SELECT count(*) FROM faiss_idmap_mat) AS row_count "
    f"FROM read_blob({_IDMAP})",
}

_ROW_GROUP = 8_192
_ROW_GROUPS = {"symbols_mat": 2_048}
"""Rows of a row group, of tables that have fewer."""
_BLOCK_BYTES = 65_536
"""A quarter of DuckDB's own: a column of a small row group leaves the rest of its block empty."""
_STORAGE = "v1.4.0"
"""The oldest DuckDB that opens the file, which is as small as in the newest format.

That of 1.2 loses the parentheses of joins in views, so that `file_checks` would find other views than ours.
"""
_MEMORY_BYTES = 64 << 20
"""Memory of a session besides the size of its tables: some operators keep all their rows, and fail without room."""


def catalog_statements(path: str, bundle: str, *dims: int, commented: bool = True) -> Iterator[str]:
    """Yield the statements that make a catalog, for a connection without a database file.

    A table keeps the size of row groups with which the file was attached when the table was made.

    Args:
        path: File to create.
        bundle: Folder of the version.
        *dims: Dimension of the vectors of each dense index.
        commented: See `build_statements`.

    Yields:
        SQL statements, in order.
    """
    yield set_bundle(bundle)
    before = 0
    for rows, statement in _build_steps(*dims, commented=commented):
        if rows != before:
            if before:
                yield from ("USE memory", "DETACH catalog")
            yield (
                f"ATTACH '{_escape_quotes(path)}' AS catalog "
                f"(ROW_GROUP_SIZE {rows}, BLOCK_SIZE {_BLOCK_BYTES}, STORAGE_VERSION '{_STORAGE}')"
            )
            yield "USE catalog"
        yield statement
        before = rows
    yield "CHECKPOINT"


def views(*dims: int) -> dict[str, str]:
    """Return every view of a version.

    Args:
        *dims: Dimension of the vectors of each dense index.

    Returns:
        SQL of each view, by name.
    """
    found = {name: sql.format(dim=dims[0]) for name, sql in VIEWS.items()}
    more = zip(SECOND_VIEWS.items(), dims[1:], strict=False)
    return found | {name: sql.format(dim=dim) for (name, sql), dim in more}


def build_statements(*dims: int, commented: bool = True) -> list[str]:
    """Return the statements that fill an empty catalog; ``bundle`` must be set in the session.

    Args:
        *dims: Dimension of the vectors of each dense index.
        commented: Say what tables, views and columns mean, which takes a third of the time of a small catalog.

    Returns:
        SQL statements, in order.
    """
    return [statement for _, statement in _build_steps(*dims, commented=commented)]


def _build_steps(*dims: int, commented: bool) -> Iterator[tuple[int, str]]:
    """Yield the statements of `build_statements`, each with the size of row groups that it needs."""
    for name, sql in views(*dims).items():
        yield _ROW_GROUP, f"CREATE VIEW {name} AS {sql}"
    for statement in _comments("VIEW", views(*dims)) if commented else ():
        yield _ROW_GROUP, statement
    # Smaller row groups are written last: a checkpoint merges those that are smaller than the file's.
    for name, sql in TABLES.items():
        if name in _ROW_GROUPS:
            yield _ROW_GROUP, f"CREATE TEMP TABLE {name} AS {sql}"
        else:
            for statement in _table(name, sql, commented=commented):
                yield _ROW_GROUP, statement
    for name, rows in _ROW_GROUPS.items():
        for statement in (*_table(name, f"SELECT * FROM temp.{name}", commented=commented), f"DROP TABLE temp.{name}"):
            yield rows, statement


def _table(name: str, sql: str, *, commented: bool) -> list[str]:
    """Return the statements that make a table of the rows of a SELECT, and say what it means."""
    columns, full = symbol_catalog.COLUMNS.get(name), f"catalog.{name}"
    made = [f"CREATE TABLE {full} AS {sql}"]
    if columns is not None:
        made = [f"CREATE TABLE {full} ({columns})", f"INSERT INTO {full} BY NAME {sql}"]
    return [*made, *_comments("TABLE", [name])] if commented else made


def _comments(kind: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the statements that say what tables or views, and their columns, mean."""
    yield "BEGIN"  # without a transaction, each comment is synced to the disk
    meanings = {name: meaning for group in GROUPS.values() for name, meaning in group.items()}
    for name in names:
        yield f"COMMENT ON {kind} catalog.{name} IS '{_escape_quotes(meanings[name])}'"
        for column, meaning in column_meanings(name).items():
            yield f"COMMENT ON COLUMN catalog.{name}.{column} IS '{_escape_quotes(meaning)}'"
    yield "COMMIT"


def limit_memory(spill: str, table_bytes: int) -> list[str]:
    """Return the statements that limit the memory of a session that builds or checks a catalog.

    Args:
        spill: Folder for what needs more meanwhile.
        table_bytes: Size of the version's tables.

    Returns:
        SQL statements.
    """
    limit = _MEMORY_BYTES + table_bytes
    return [f"SET memory_limit = '{limit}B'", f"SET temp_directory = '{_escape_quotes(spill)}'"]


def set_bundle(path: str) -> str:
    """Return the statement that points the views at a version's folder."""
    return f"SET VARIABLE bundle = '{_escape_quotes(path)}'"


def _escape_quotes(path: str) -> str:
    return path.replace("'", "''")
