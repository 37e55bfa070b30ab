"""SQL of the DuckDB catalog, and the meanings of its tables and views.

Views read the version's Parquet files through the session variable ``bundle`` (the version's folder), so the file
opens read-only from any directory. What a request touches is materialized beside them: look-ups through a
Parquet view cost about eight times as much as through a table. Chunks lie there in the order of their files, because
text search reads whole files, and say where in ``texts.*bin`` their text is; by id they are found in ``rows/``.

Row groups are small: the tables of symbols are sorted by what they are asked for, so that the minima and maxima of each
row group lead to the rows as an index would. Django's references cost 1 ms instead of 4.

``codequarry sql`` without a query prints the meanings. ``docs/CATALOG.md`` is made from them, from the schemas, and
from ``tests/contracts/catalog_columns.py``.
"""

# pyright: reportUnknownVariableType=false
# Arrow ships no type stubs.

from __future__ import annotations

from codequarry.schemas.bundle.shards import SHARDED_TABLES
from codequarry.schemas.bundle.tables import DESCRIPTIONS, SCHEMAS
from codequarry.schemas.catalog import symbol_views as symbol_catalog

GROUPS: dict[str, dict[str, str]] = {
    "Files of the version": {
        **DESCRIPTIONS,
        "embeddings": "A row per chunk: its vector in the first dense leg.",
        "embeddings2": "A row per chunk: its vector in the second dense leg; only in versions of tier standard.",
        "faiss_idmap": "A row per vector of the dense indexes: which chunk it is of.",
        "v_documents": "`chunks` under the names that answers of the tools use.",
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
        "manifests": "A row per published version, the current one or not, whole or not.",
        "manifest_sources": "A row per version and repository.",
        "manifest_indexes": "A row per version and search index.",
        "pools": "Candidates of sampled searches, where the service keeps them (`telemetry.pools`).",
        "v_pool_rank_changes": "Queries that two versions were asked, and what became of each candidate's rank; needs "
        "`telemetry.queries`.",
        "v_pool_candidates": "`pools`, each candidate with its place in the version that is open.",
    },
}
"""What each table or view holds, by group."""


def _table(name: str, options: str = "") -> str:
    """Return the SQL that reads a table: ``chunks.parquet``, or its shards ``chunks.00.parquet`` and so on."""
    file = f"{name}.*parquet" if name in SHARDED_TABLES else f"{name}.parquet"
    return f"read_parquet(getvariable('bundle') || '/tables/{file}'{options})"


def _vectors(name: str) -> str:
    return f"SELECT chunk_id, vector::FLOAT[{{dim}}] AS vector FROM {_table(name)}"


VIEWS: dict[str, str] = {
    **{name: f"SELECT * FROM {_table(name)}" for name in SCHEMAS},
    "embeddings": _vectors("embeddings"),
    "faiss_idmap": "SELECT * FROM read_parquet(getvariable('bundle') || '/faiss.idmap.parquet')",
    "v_faiss_join": "SELECT idmap.faiss_row, idmap.chunk_id AS idmap_chunk_id, chunks.* "
    "FROM faiss_idmap AS idmap FULL JOIN chunks USING (chunk_id)",
    "v_documents": "SELECT chunk_id AS id, repo || '/' || path AS uri, lang, kind, qualified_name AS symbol, symbols, "
    "start_line, end_line, start_byte, end_byte, left(text, 200) AS preview, text AS content FROM chunks",
}

SECOND_VIEWS: dict[str, str] = {"embeddings2": _vectors("embeddings2")}
"""Views of a version with a second dense index."""

TABLES: dict[str, str] = {
    "files_mat": symbol_catalog.FILES,
    "chunks_mat": "SELECT chunks.* EXCLUDE (signature, doc, content_sha256, text, filename), file, "
    "coalesce(try_cast(regexp_extract(filename, '[.]([0-9]+)[.]parquet$', 1) AS UTINYINT), 0) AS shard, "
    "sum(strlen(text)) OVER (PARTITION BY filename ORDER BY repo, path, start_byte)::BIGINT - strlen(text) "
    "AS text_start, strlen(text)::INTEGER AS text_bytes, coalesce(module, '') AS module, "
    "(repo, path) IN (SELECT (repo, path) FROM scip_documents) AS scip, "
    "chunk_id IN (SELECT chunk_id FROM cst_nodes) AS cst "
    f"FROM {_table('chunks', ', filename = true')} AS chunks "
    "JOIN (SELECT repo, path, file FROM files_mat) USING (repo, path) "
    "LEFT JOIN (SELECT repo, path, module FROM modules) USING (repo, path) ORDER BY repo, path, start_byte",
    **symbol_catalog.TABLES,
    "faiss_idmap_mat": "SELECT faiss_row, chunk_id FROM faiss_idmap ORDER BY faiss_row",
    "faiss_idmap_mat_meta": "SELECT parse_filename(filename) AS parquet_path, sha256(content) AS parquet_sha256, "
    "(SELECT count(*) FROM faiss_idmap_mat) AS row_count "
    "FROM read_blob(getvariable('bundle') || '/faiss.idmap.parquet')",
}

_ROW_GROUP = 2_048
_BLOCK_BYTES = 65_536
"""A quarter of DuckDB's own: a column of a small row group leaves the rest of its block empty."""


def create_statements(path: str) -> list[str]:
    """Return the statements that make an empty catalog and its session.

    Args:
        path: File to create. DuckDB opens it later by its name without suffix, and the views hold that name.

    Returns:
        SQL statements, in order.
    """
    return [
        f"ATTACH '{_escape_quotes(path)}' AS catalog (ROW_GROUP_SIZE {_ROW_GROUP}, BLOCK_SIZE {_BLOCK_BYTES})",
        "USE catalog",
    ]


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


def build_statements(*dims: int) -> list[str]:
    """Return the statements that fill an empty catalog; ``bundle`` must be set in the session.

    Args:
        *dims: Dimension of the vectors of each dense index.

    Returns:
        SQL statements, in order.
    """
    created = [f"CREATE VIEW {name} AS {sql}" for name, sql in views(*dims).items()]
    tables = [f"CREATE TABLE {name} AS {sql}" for name, sql in TABLES.items()]
    return [*created, *tables]


def set_bundle(path: str) -> str:
    """Return the statement that points the views at a version's folder."""
    return f"SET VARIABLE bundle = '{_escape_quotes(path)}'"


def _escape_quotes(path: str) -> str:
    return path.replace("'", "''")
