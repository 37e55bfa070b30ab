"""The expectation suites: rules for every row of every table.

A suite checks single rows, together with what other tables say of them. `checks` tests the rest: rows that are missing
altogether, sums and orders, and the agreement of tables, indexes and catalog.
"""

from __future__ import annotations

from codequarry.schemas.bundle.layout import DENSE_LEGS, embeddings_table
from codequarry.schemas.catalog.symbol_views import PATH_CLASSES
from codequarry.schemas.encodings import ENCODINGS
from codequarry.schemas.gates.expectation import Suite, among, between, holds, unique
from codequarry.schemas.languages import BY_NAME, MODULE_LANGUAGES

NORM_TOLERANCE = 1e-3
_ALIKE = 0.8
"""Share of the vectors that have to differ from those of other texts in other files; a broken encoder makes few
different ones. Vectors inside of a file may be alike: a file that repeats itself is no fault."""
_SHA256 = "'[0-9a-f]{64}'"

FILES = Suite(
    "files",
    "SELECT repo, path, lang, path_class, encoding, skip_reason = '' AS indexed, parsed, size_bytes, lines, sha256, "
    f"skip_reason <> '' OR regexp_full_match(sha256, {_SHA256}) AS hashed, "
    "skip_reason <> '' OR (size_bytes > 0 AND lang <> '') AS filled FROM files",
    (
        unique("files listed twice", "repo", "path"),
        among("files of an unknown language", "lang", {"", *BY_NAME}),
        among("files of an unknown path class", "path_class", PATH_CLASSES),
        among("files of an unknown encoding", "encoding", {"", *ENCODINGS}),
        between("files of a negative size", "size_bytes", 0),
        between("files with a negative number of lines", "lines", 0),
        holds("indexed files without a sha256", "hashed"),
        holds("indexed files that are empty or of no language", "filled"),
    ),
    key=("repo", "path"),
)

CHUNKS = Suite(
    "chunks",
    "SELECT chunk_id, repo, path, chunks.lang, kind, start_byte, end_byte, start_line, end_line, comment_percent, "
    "len(symbols) AS symbols, strlen(text) AS text_bytes, hash(text) AS content, "
    f"content_sha256 = '' OR regexp_full_match(content_sha256, {_SHA256}) AS hashed, "
    "end_byte > start_byte AS bytes_ordered, "
    "end_line >= start_line AS lines_ordered, "
    "start_byte - lag(end_byte, 1, 0) OVER (PARTITION BY repo, path ORDER BY start_byte) AS gap, "
    "coalesce(files.indexed, false) AS indexed, end_byte <= coalesce(files.size_bytes, -1) AS inside, "
    "chunks.lang IS NOT DISTINCT FROM files.lang AS same_language "
    "FROM chunks LEFT JOIN files USING (repo, path)",
    (
        unique("duplicate chunk ids", "chunk_id"),
        between("chunk ids that are not positive", "chunk_id", 1),
        holds("chunks of files that are not indexed", "indexed"),
        between("bytes of indexed files covered not exactly once", "gap", 0, 0),
        holds("chunks whose bytes are out of order", "bytes_ordered"),
        holds("chunks whose lines are out of order", "lines_ordered"),
        between("chunks that begin before their file", "start_byte", 0),
        between("chunks on lines before the first", "start_line", 0),
        holds("chunks that reach outside of their file", "inside"),
        between("chunks without text", "text_bytes", 1),
        between("chunks with an impossible share of comments", "comment_percent", 0, 100),
        holds("chunks with something else than a sha256", "hashed"),
        holds("chunks of another language than their file", "same_language"),
    ),
    key=("chunk_id", "repo", "path"),
    needs=("files",),
)

_NODES_SQL = (
    "SELECT node.repo, node.path, node.qualified_name, node.chunk_id, node.start_byte, node.end_byte, "
    "node.name_start_byte, chunk.chunk_id IS NOT NULL AS in_chunk, node.name <> '' AND node.kind <> '' AS named, "
    "coalesce(node.start_byte <= node.end_byte AND node.end_byte <= files.size_bytes "
    "AND node.start_line <= node.end_line AND node.name_start_column >= 0, false) AS inside "
    "FROM {table} AS node LEFT JOIN files USING (repo, path) LEFT JOIN chunks AS chunk "
    "ON chunk.chunk_id = node.chunk_id AND chunk.repo = node.repo AND chunk.path = node.path "
    "AND node.start_byte >= chunk.start_byte AND node.start_byte < chunk.end_byte"
)


def _nodes_suite(table: str, rows: str) -> Suite:
    return Suite(
        table,
        _NODES_SQL.format(table=table),
        (
            holds(f"{rows} that do not start in their chunk", "in_chunk"),
            holds(f"{rows} that reach outside of their file", "inside"),
            holds(f"{rows} without a name or a kind", "named"),
        ),
        key=("repo", "path", "qualified_name", "start_byte"),
        needs=("files", "chunks"),
    )


AST_NODES = _nodes_suite("ast_nodes", "definitions")
AST_MEMBERS = _nodes_suite("ast_members", "members")

CST_NODES = Suite(
    "cst_nodes",
    "SELECT node.repo, node.path, node.chunk_id, node.kind, node.count AS leaves, node.kind <> '' AS named, "
    "chunks.chunk_id IS NOT NULL AS known FROM cst_nodes AS node LEFT JOIN chunks USING (repo, path, chunk_id)",
    (
        unique("leaf kinds counted twice in a chunk", "repo", "path", "chunk_id", "kind"),
        holds("leaf kinds of no chunk", "known"),
        holds("leaf kinds without a name", "named"),
        between("leaf kinds that occur nowhere", "leaves", 1),
    ),
    key=("repo", "path", "chunk_id", "kind"),
    needs=("chunks",),
)

MODULES = Suite(
    "modules",
    "SELECT repo, path, modules.lang, coalesce(files.indexed, false) AS indexed, coalesce(lost, 0) AS lost, "
    "least(code_lines, comment_lines, branches, fan_in, fan_out) AS smallest, "
    "coalesce(modules.lines = files.lines AND definitions = coalesce(found, 0) "
    "AND code_lines + comment_lines <= modules.lines, false) AS agrees FROM modules "
    "LEFT JOIN files USING (repo, path) "
    "LEFT JOIN (SELECT repo, path, count(*) AS found FROM ast_nodes GROUP BY ALL) USING (repo, path) "
    "LEFT JOIN (SELECT repo, importer AS path, count(*) AS lost FROM "
    "(SELECT repo, path AS importer, unnest(resolved) AS path FROM modules) ANTI JOIN "
    "(SELECT repo, path FROM modules) USING (repo, path) GROUP BY ALL) USING (repo, path)",
    (
        unique("modules listed twice", "repo", "path"),
        holds("modules of files that are not indexed", "indexed"),
        among("modules of a language that has none", "lang", MODULE_LANGUAGES),
        between("imports that resolve to what is no module", "lost", 0, 0),
        holds("modules that count other lines and definitions than their file has", "agrees"),
        between("modules with a negative count", "smallest", 0),
    ),
    key=("repo", "path"),
    needs=("files", "ast_nodes"),
)

SCIP_SYMBOLS = Suite(
    "scip_symbols",
    "SELECT repo, path, symbol, symbol <> '' AS named, path = '' OR coalesce(files.indexed, false) AS indexed "
    "FROM scip_symbols LEFT JOIN files USING (repo, path)",
    (
        unique("SCIP symbols described twice in a file", "repo", "path", "symbol"),
        holds("SCIP symbols without a name", "named"),
        holds("SCIP symbols of files that are not indexed", "indexed"),
    ),
    key=("repo", "path", "symbol"),
    needs=("files",),
)

SCIP_OCCURRENCES = Suite(
    "scip_occurrences",
    "SELECT repo, path, place.symbol, start_byte, end_byte, coalesce(files.indexed AND start_byte >= 0 "
    "AND end_byte >= start_byte AND end_byte <= files.size_bytes, false) AS inside, place.symbol <> '' AS named, "
    "(is_definition, is_import, is_write, is_read, is_generated, is_test) = ((roles & 1) <> 0, (roles & 2) <> 0, "
    "(roles & 4) <> 0, (roles & 8) <> 0, (roles & 16) <> 0, (roles & 32) <> 0) AS roles_agree, "
    "NOT is_definition OR starts_with(place.symbol, 'local ') OR coalesce(symbols, 0) = 0 OR known.symbol IS NOT NULL "
    "AS described FROM scip_occurrences AS place "
    "LEFT JOIN files USING (repo, path) "
    "LEFT JOIN (SELECT repo, path, max(symbols) AS symbols FROM scip_documents GROUP BY ALL) USING (repo, path) "
    "LEFT JOIN (SELECT DISTINCT repo, symbol FROM scip_symbols) AS known USING (repo, symbol)",
    (
        holds("SCIP occurrences outside of the indexed files", "inside"),
        holds("SCIP occurrences of no symbol", "named"),
        holds("SCIP occurrences whose roles contradict each other", "roles_agree"),
        # Of scip-python's a thousandth; where the symbols got lost at least a fifteenth.
        holds("SCIP definitions whose symbol nothing describes", "described", mostly=0.97),
    ),
    key=("repo", "path", "symbol", "start_byte"),
    needs=("files", "scip_symbols"),
)

FAISS_IDMAP = Suite(
    "faiss_idmap",
    "SELECT faiss_row, chunk_id, chunks.chunk_id IS NOT NULL AS known, "
    "faiss_row = row_number() OVER (ORDER BY faiss_row) - 1 AS in_sequence "
    "FROM faiss_idmap LEFT JOIN chunks USING (chunk_id)",
    (
        unique("chunks that are in the id map twice", "chunk_id"),
        holds("rows of the id map that are not counted from 0", "in_sequence"),
        holds("rows of the id map that are of no chunk", "known"),
    ),
    key=("faiss_row", "chunk_id"),
    needs=("chunks",),
)


QRELS = Suite(
    "qrels",
    "SELECT id, qrels.repo, qrels.path, start_line, end_line, strlen(query) AS query_bytes, "
    "files.path IS NOT NULL AS known, "
    "files.path IS NULL OR (0 <= start_line AND start_line <= end_line AND end_line < files.lines) AS inside "
    "FROM qrels LEFT JOIN files ON (files.repo, files.path, files.skip_reason) = (qrels.repo, qrels.path, '')",
    (
        unique("questions listed twice", "id", "repo", "path", "start_line"),
        between("questions without a text", "query_bytes", 1),
        holds("questions about files that are not indexed", "known"),
        holds("questions about lines outside of their file", "inside"),
    ),
    key=("id", "repo", "path", "start_line"),
)
"""Of what a version is asked before it is published; no table of a version holds it."""


def of_leg(leg: str) -> str:
    """Return the part of a gate's name that tells its dense index; empty for the first one.

    >>> of_leg("faiss"), of_leg("faiss2")
    ('', ' (faiss2)')
    """
    return "" if leg == DENSE_LEGS[0] else f" ({leg})"


def embeddings_suite(leg: str, dim: int) -> Suite:
    """Return the suite of the table of a dense index's vectors, which have that dimension."""
    table, suffix = embeddings_table(leg), of_leg(leg)
    return Suite(
        table,
        "WITH made AS (SELECT chunk_id, hash(vector) AS vector, len(vector::FLOAT[]) AS dim, "
        "list_inner_product(vector, vector)::DOUBLE AS squared_norm, isfinite(squared_norm) AS finite, "
        f"list_min(vector::FLOAT[]) < list_max(vector::FLOAT[]) AS varied FROM {table}), "
        # Few vectors are alike, and only those are asked where they come from.
        "alike AS (SELECT vector FROM made GROUP BY vector HAVING count(*) > 1), "
        "shared AS (SELECT vector FROM made SEMI JOIN alike USING (vector) LEFT JOIN chunks USING (chunk_id) "
        "GROUP BY vector HAVING min(content) IS DISTINCT FROM max(content) "
        "AND min((repo, path)) IS DISTINCT FROM max((repo, path))) "
        "SELECT chunk_id, chunks.chunk_id IS NOT NULL AS known, dim, varied, finite, "
        "CASE WHEN finite THEN squared_norm ELSE -1 END AS squared_norm, shared.vector IS NULL AS own "
        "FROM made LEFT JOIN chunks USING (chunk_id) LEFT JOIN shared USING (vector)",
        (
            unique(f"chunks with two vectors{suffix}", "chunk_id"),
            holds(f"vectors of no chunk{suffix}", "known"),
            between(f"vectors of another dimension{suffix}", "dim", dim, dim),
            holds(f"vectors that are not finite{suffix}", "finite"),
            between(
                f"vectors that are not of unit norm{suffix}", "squared_norm", 1 - NORM_TOLERANCE, 1 + NORM_TOLERANCE
            ),
            holds(f"vectors whose numbers are all the same{suffix}", "varied"),
            holds(f"vectors that equal those of other files{suffix}", "own", mostly=_ALIKE),
        ),
        key=("chunk_id",),
        needs=("chunks",),
    )


OF_TABLES: tuple[Suite, ...] = (
    FILES, CHUNKS, AST_NODES, AST_MEMBERS, CST_NODES, MODULES, SCIP_SYMBOLS, SCIP_OCCURRENCES, FAISS_IDMAP
)  # fmt: skip
"""Every suite but those of vectors; needed ones first."""
