"""Checks that are a SELECT which must find nothing: missing rows, sums, and what the catalog holds otherwise."""

from __future__ import annotations

from codequarry.schemas.languages import MODULE_LANGUAGES

_MODULE_LANGUAGES = ", ".join(f"'{language}'" for language in sorted(MODULE_LANGUAGES))

NOTHING_OF: dict[str, str] = {
    "rows of v_faiss_join with a missing side": "SELECT faiss_row, idmap_chunk_id, chunk_id FROM v_faiss_join "
    "WHERE idmap_chunk_id IS NULL OR path IS NULL",
    "indexed files whose chunks do not reach the end": "SELECT repo, path, size_bytes, reached FROM files LEFT JOIN ("
    "SELECT repo, path, max(end_byte) AS reached FROM chunks GROUP BY ALL) USING (repo, path) "
    "WHERE indexed AND reached IS DISTINCT FROM size_bytes",
    "definitions and symbols of chunks that differ": "SELECT chunk_id, found, listed FROM ("
    "SELECT chunk_id, count(*) AS found FROM ast_nodes GROUP BY ALL) AS node "
    "FULL JOIN (SELECT chunk_id, symbols AS listed FROM chunks WHERE symbols > 0) USING (chunk_id) "
    "WHERE found IS DISTINCT FROM listed",
    "references that do not lie in their chunk": "SELECT reference.repo, reference.path, name, reference.start_byte "
    "FROM ast_references AS reference LEFT JOIN chunks "
    "AS chunk ON chunk.chunk_id = reference.chunk_id AND chunk.repo = reference.repo AND chunk.path = reference.path "
    "AND reference.start_byte >= chunk.start_byte AND reference.start_byte < chunk.end_byte "
    "WHERE chunk.chunk_id IS NULL",
    "source files without a module": "SELECT repo, path, lang FROM files "
    f"WHERE indexed AND lang IN ({_MODULE_LANGUAGES}) "
    # A version built before a language had a grammar has no modules in that language.
    "AND (parsed OR lang IN (SELECT lang FROM modules)) "
    "AND (repo, path) NOT IN (SELECT (repo, path) FROM modules)",
    "repositories whose fan-in and fan-out differ in sum": "SELECT repo, sum(fan_in) AS fan_in, sum(fan_out) AS "
    "fan_out FROM main.modules GROUP BY repo HAVING sum(fan_in) <> sum(fan_out) OR sum(fan_out) <> sum(len(resolved))",
}
"""SELECTs over tables and frames that must find nothing: missing rows, and errors that only sums show."""

OF_WHOLE_REPOSITORIES = frozenset(
    {"repositories whose fan-in and fan-out differ in sum", "imports that resolve to what is no module"}
)
"""Names of checks that need every file of a repository: a delta version has those that differ from its base."""

OF_EACH_LEG: dict[str, str] = {
    "chunks without a vector": "SELECT chunk_id, repo, path FROM chunks ANTI JOIN {embeddings} USING (chunk_id)",
}
"""SELECTs over the table of a dense index's vectors that must find nothing."""

CATALOG_DIFFERS: dict[str, str] = {
    "views of the catalog that are not this program's": "SELECT view_name FROM "
    "(SELECT view_name, sql FROM duckdb_views() WHERE database_name = 'published' AND NOT internal) AS theirs "
    "FULL JOIN (SELECT view_name, sql FROM duckdb_views() WHERE database_name = 'memory' AND NOT internal) AS ours "
    "USING (view_name) WHERE theirs.sql IS DISTINCT FROM ours.sql",
    "chunks that the catalog holds otherwise": "SELECT chunk_id, chunks.path, held.path AS held_path "
    "FROM chunks FULL JOIN published.chunks_mat AS held "
    "USING (chunk_id) WHERE (chunks.repo, chunks.path, chunks.start_byte, chunks.end_byte, chunks.text_bytes) "
    "IS DISTINCT FROM (held.repo, held.path, held.start_byte, held.end_byte, held.text_bytes)",
    "files that the catalog holds otherwise": "SELECT repo, path FROM files FULL JOIN published.files_mat AS held "
    "USING (repo, path) WHERE files.sha256 IS DISTINCT FROM held.sha256",
    "rows of the id map that the catalog holds otherwise": "SELECT faiss_row, faiss_idmap.chunk_id, "
    "held.chunk_id AS held_chunk_id FROM faiss_idmap FULL JOIN published.faiss_idmap_mat AS held USING (faiss_row) "
    "WHERE faiss_idmap.chunk_id IS DISTINCT FROM held.chunk_id",
    "definitions without a row in symbols_mat": "SELECT node.repo, node.path, node.qualified_name "
    "FROM (SELECT * FROM ast_nodes UNION ALL BY NAME SELECT * FROM ast_members) AS node "
    "ANTI JOIN published.symbols_mat AS row "
    "ON row.repo = node.repo AND row.path = node.path AND row.start_byte = name_start_byte",
    "names that do not lie in their chunk": "SELECT row.repo, row.path, row.name FROM published.symbols_mat AS row "
    "LEFT JOIN published.chunks_mat AS chunk ON chunk.chunk_id = row.chunk_id AND chunk.repo = row.repo "
    "AND chunk.path = row.path AND row.start_byte >= chunk.start_byte "
    "AND row.start_line BETWEEN chunk.start_line AND chunk.end_line + 1 WHERE chunk.chunk_id IS NULL",
    "places in the chunk of another file": "SELECT place.repo, place.path, chunk.path AS chunk_path "
    "FROM published.occurrences_mat "
    "JOIN published.files_mat AS place USING (file) JOIN published.chunks_mat AS chunk ON chunk.rowid = chunk "
    "WHERE chunk.repo <> place.repo OR chunk.path <> place.path",
}
"""The same, where the catalog says something else than the tables."""
