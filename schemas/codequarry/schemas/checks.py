"""What has to hold of a complete version, asked of its files: by the gate before a publish, and by the doctor.

The SQL runs over the version's Parquet files through this program's own views; the version's catalog is attached
read-only and only counted and compared. A version may come from anywhere, so nothing outside of its folder can be read.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false
# FAISS ships no type stubs.

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from codequarry.schemas.catalog import set_bundle, views
from codequarry.schemas.encoder import SPEC_FILE, EncoderSpec
from codequarry.schemas.errors import CodequarryError, IntegrityError, UnavailableError
from codequarry.schemas.file_index import FileIndex
from codequarry.schemas.integrity import file_sha256
from codequarry.schemas.languages import MODULE_LANGUAGES
from codequarry.schemas.layout import DENSE_LEGS, BundlePaths
from codequarry.schemas.lexical import open_searcher
from codequarry.schemas.manifest import LegEntry, Manifest
from codequarry.schemas.splade_checks import compare_splade
from codequarry.schemas.warp_layout import ENCODER_FOLDER, WarpSpec, map_arrays

if TYPE_CHECKING:
    import duckdb

_NORM_TOLERANCE = 1e-3
_MODULE_LANGUAGES = ", ".join(f"'{language}'" for language in sorted(MODULE_LANGUAGES))

_HELD: dict[str, str] = {
    "files": "SELECT repo, path, lang, skip_reason, parsed, size_bytes, lines, sha256 FROM files",
    "chunks": "SELECT chunk_id, repo, path, start_byte, end_byte, start_line, end_line, len(symbols) AS symbols, "
    "strlen(text) AS text_bytes FROM chunks",
    "ast_nodes": "SELECT chunk_id, repo, path, start_byte, end_byte, start_line, end_line, name_start_byte, "
    "name_start_column FROM ast_nodes",
}
"""What many checks read: of each table in memory once, instead of many small files again and again."""

_HELD_VECTORS = "SELECT chunk_id, list_inner_product(vector, vector) AS squared_norm FROM {embeddings}"
"""The same of a table of vectors."""

MUST_BE_ZERO: dict[str, str] = {
    "duplicate chunk ids": "SELECT count(*) - count(DISTINCT chunk_id) FROM chunks",
    "chunk ids that are not positive": "SELECT count(*) FROM chunks WHERE chunk_id <= 0",
    "rows of v_faiss_join with a missing side": "SELECT count(*) FROM v_faiss_join "
    "WHERE idmap_chunk_id IS NULL OR path IS NULL",
    "bytes of indexed files covered not exactly once": "SELECT count(*) FROM ("
    "SELECT start_byte, lag(end_byte, 1, 0) OVER (PARTITION BY repo, path ORDER BY start_byte) AS expected FROM chunks"
    ") WHERE start_byte <> expected",
    "indexed files whose chunks do not reach the end": "SELECT count(*) FROM files LEFT JOIN ("
    "SELECT repo, path, max(end_byte) AS reached FROM chunks GROUP BY ALL) USING (repo, path) "
    "WHERE skip_reason = '' AND reached IS DISTINCT FROM size_bytes",
    "chunks of files that are not indexed": "SELECT count(*) FROM chunks ANTI JOIN "
    "(SELECT repo, path FROM files WHERE skip_reason = '') USING (repo, path)",
    "definitions that do not start in their chunk": "SELECT count(*) FROM ast_nodes AS node LEFT JOIN chunks AS chunk "
    "ON chunk.chunk_id = node.chunk_id AND chunk.repo = node.repo AND chunk.path = node.path "
    "AND node.start_byte >= chunk.start_byte AND node.start_byte < chunk.end_byte WHERE chunk.chunk_id IS NULL",
    "definitions that reach outside of their file": "SELECT count(*) FROM ast_nodes LEFT JOIN files USING (repo, path) "
    "WHERE NOT coalesce(start_byte <= end_byte AND end_byte <= size_bytes AND start_line <= end_line "
    "AND name_start_column >= 0, false)",
    "definitions and symbols of chunks that differ": "SELECT count(*) FROM ("
    "SELECT chunk_id, count(*) AS found FROM ast_nodes GROUP BY ALL) AS node "
    "FULL JOIN (SELECT chunk_id, symbols AS listed FROM chunks WHERE symbols > 0) USING (chunk_id) "
    "WHERE found IS DISTINCT FROM listed",
    "references that do not lie in their chunk": "SELECT count(*) FROM ast_references AS reference LEFT JOIN chunks "
    "AS chunk ON chunk.chunk_id = reference.chunk_id AND chunk.repo = reference.repo AND chunk.path = reference.path "
    "AND reference.start_byte >= chunk.start_byte AND reference.start_byte < chunk.end_byte "
    "WHERE chunk.chunk_id IS NULL",
    "leaf kinds of no chunk": "SELECT count(*) FROM cst_nodes ANTI JOIN chunks USING (repo, path, chunk_id)",
    "chunks whose lines or bytes are out of order": "SELECT count(*) FROM chunks "
    "WHERE end_byte <= start_byte OR end_line < start_line OR start_byte < 0 OR start_line < 0",
    "source files without a module, or modules without a source file": "SELECT count(*) FROM ("
    f"SELECT repo, path FROM files WHERE skip_reason = '' AND lang IN ({_MODULE_LANGUAGES}) "
    # A version built before a language had a grammar has no modules of it.
    "AND (parsed OR lang IN (SELECT lang FROM modules))) AS file "
    "FULL JOIN modules USING (repo, path) WHERE file.path IS NULL OR modules.path IS NULL",
    "imports that resolve to what is no module": "SELECT count(*) FROM "
    "(SELECT repo, unnest(resolved) AS path FROM modules) ANTI JOIN modules USING (repo, path)",
    "repositories whose fan-in and fan-out differ in sum": "SELECT count(*) FROM ("
    "SELECT repo FROM modules GROUP BY repo HAVING sum(fan_in) <> sum(fan_out) OR sum(fan_out) <> sum(len(resolved)))",
    "modules that count other lines and definitions than their file has": "SELECT count(*) FROM modules "
    "LEFT JOIN files USING (repo, path) LEFT JOIN (SELECT repo, path, count(*) AS found FROM ast_nodes GROUP BY ALL) "
    "USING (repo, path) WHERE modules.lines IS DISTINCT FROM files.lines OR definitions <> coalesce(found, 0) "
    "OR code_lines + comment_lines > modules.lines",
    "SCIP occurrences outside of the indexed files": "SELECT count(*) FROM scip_occurrences LEFT JOIN "
    "(SELECT repo, path, size_bytes FROM files WHERE skip_reason = '') AS files USING (repo, path) "
    "WHERE size_bytes IS NULL OR start_byte < 0 OR end_byte < start_byte OR end_byte > size_bytes",
}

_OF_EACH_LEG: dict[str, str] = {
    "vectors that are not of unit norm": "SELECT count(*) FROM {embeddings} "
    f"WHERE NOT coalesce(abs(squared_norm - 1) < {_NORM_TOLERANCE}, false)",
    "embeddings without a chunk, or chunks without one": "SELECT count(*) FROM {embeddings} "
    "FULL JOIN chunks USING (chunk_id) WHERE squared_norm IS NULL OR path IS NULL",
}
"""Of the table of a leg's vectors."""

_CATALOG_DIFFERS: dict[str, str] = {
    "views of the catalog that are not this program's": "SELECT count(*) FROM "
    "(SELECT view_name, sql FROM duckdb_views() WHERE database_name = 'published' AND NOT internal) AS theirs "
    "FULL JOIN (SELECT view_name, sql FROM duckdb_views() WHERE database_name = 'memory' AND NOT internal) AS ours "
    "USING (view_name) WHERE theirs.sql IS DISTINCT FROM ours.sql",
    "chunks that the catalog holds otherwise": "SELECT count(*) FROM chunks FULL JOIN published.chunks_mat AS held "
    "USING (chunk_id) WHERE (chunks.repo, chunks.path, chunks.start_byte, chunks.end_byte, chunks.text_bytes) "
    "IS DISTINCT FROM (held.repo, held.path, held.start_byte, held.end_byte, held.text_bytes)",
    "chunks whose text the catalog looks for elsewhere": "SELECT count(*) FROM ("
    "SELECT text_start, lag(text_start + text_bytes, 1, 0) OVER (PARTITION BY shard ORDER BY repo, path, start_byte) "
    "AS expected FROM published.chunks_mat) WHERE text_start <> expected",
    "files that the catalog holds otherwise": "SELECT count(*) FROM files FULL JOIN published.files_mat AS held "
    "USING (repo, path) WHERE files.sha256 IS DISTINCT FROM held.sha256",
    "definitions without a row in symbols_mat": "SELECT count(*) FROM ast_nodes ANTI JOIN published.symbols_mat AS row "
    "ON row.repo = ast_nodes.repo AND row.path = ast_nodes.path AND row.start_byte = name_start_byte",
    "names that do not lie in their chunk": "SELECT count(*) FROM published.symbols_mat AS row "
    "LEFT JOIN published.chunks_mat AS chunk ON chunk.chunk_id = row.chunk_id AND chunk.repo = row.repo "
    "AND chunk.path = row.path AND row.start_byte >= chunk.start_byte "
    "AND row.start_line BETWEEN chunk.start_line AND chunk.end_line + 1 WHERE chunk.chunk_id IS NULL",
    "SCIP occurrences lost or doubled": "SELECT (SELECT count(*) FROM scip_occurrences) - "
    "(SELECT count(*) FROM published.occurrences_mat WHERE precise)",
    "places in the chunk of another file": "SELECT count(*) FROM published.occurrences_mat "
    "JOIN published.files_mat AS place USING (file) JOIN published.chunks_mat AS chunk ON chunk.rowid = chunk "
    "WHERE chunk.repo <> place.repo OR chunk.path <> place.path",
}


_INDEXED_FILES = """
SELECT row FROM (SELECT row_number() OVER (ORDER BY repo, path) - 1 AS row, skip_reason FROM files)
WHERE skip_reason = '' ORDER BY row
"""


@dataclass(frozen=True, slots=True)
class Check:
    """One check and what it saw."""

    name: str
    passed: bool
    found: str
    expected: str
    examples: tuple[str, ...] = ()
    """At most three offending rows, values or queries."""
    regression: bool = False
    """Whether it compares with CURRENT, and so may be accepted by name and reason."""


def check_version(paths: BundlePaths, manifest: Manifest) -> list[Check]:
    """Every check of a version whose files are those of its manifest.

    Raises IntegrityError: a table or an index cannot be read at all.
    """
    import duckdb

    checks: list[Check] = []
    of_legs = {
        f"{name}{_of(leg)}": sql.format(embeddings=paths.leg(leg.channel).embeddings)
        for leg in manifest.legs
        for name, sql in _OF_EACH_LEG.items()
    }
    try:
        with closing(_connected(paths, manifest)) as connection:
            for name, sql in {**MUST_BE_ZERO, **of_legs, **_CATALOG_DIFFERS}.items():
                checks.append(_equal(name, _scalar(connection, sql), 0))
            rows = {
                "chunks": _scalar(connection, "SELECT count(*) FROM chunks"),
                "chunks_mat": _scalar(connection, "SELECT count(*) FROM published.chunks_mat"),
                "faiss_idmap": _scalar(connection, "SELECT count(*) FROM faiss_idmap"),
                "bm25": open_searcher(paths.bm25)[0].num_docs,
            }
            for name, expected in _promised_rows(manifest).items():
                found = _scalar(connection, f"SELECT count(*) FROM {name}")
                checks.append(_equal(f"rows of table {name}", found, expected))
            indexed = connection.execute(_INDEXED_FILES).fetchnumpy()["row"]
            sidecar = connection.execute("SELECT chunk_id FROM faiss_idmap ORDER BY faiss_row").fetchnumpy()["chunk_id"]
    except duckdb.Error as error:
        raise IntegrityError(
            f"the tables of {manifest.version} cannot be read ({type(error).__name__})",
            suggestion="roll back to another version, or index again",
        ) from error
    checks += [_equal(f"rows of {name}", count, manifest.counts.chunks) for name, count in rows.items()]
    checks.append(_equal("files of texts that are not those of the chunks", _strange_texts(paths), 0))
    for leg in manifest.legs:
        checks += _leg_checks(paths.leg(leg.channel), leg, manifest, sidecar)
    if manifest.format_version >= 4:
        checks.append(_file_index_check(paths, indexed, manifest.encoder.dim))
    checks += _warp_checks(paths, manifest, sidecar)
    sparse = compare_splade(paths, manifest, np.sort(sidecar))
    return [*checks, *(Check(name, found == expected, found, expected) for name, found, expected in sparse)]


def _file_index_check(paths: BundlePaths, rows: np.ndarray, dim: int) -> Check:
    """Whether the index of files is of the indexed files, with cards of unit norm or of nothing."""
    expected = f"{len(rows)} files"
    try:
        cards = FileIndex.open(paths.files, rows, dim).cards
    except UnavailableError as error:
        return Check("index of files", False, error.message, expected)
    norms = np.linalg.norm(cards, axis=1)
    strange = int((~((np.abs(norms - 1) < _NORM_TOLERANCE) | (norms == 0))).sum())
    found = f"{strange} cards that are no unit vectors" if strange else expected
    return Check("index of files", not strange, found, expected)


def _leg_checks(paths: BundlePaths, leg: LegEntry, manifest: Manifest, sidecar: np.ndarray) -> list[Check]:
    """The index of a leg is of the id map's chunks, and its encoder the one that made the vectors."""
    own, dims = _faiss_ids(paths)
    expected = {leg.encoder.dim}
    return [
        _equal(f"ids in FAISS that differ from its id map{_of(leg)}", _differing(own, sidecar), 0),
        Check(f"dimension of the FAISS index{_of(leg)}", dims == expected, str(dims), str(expected)),
        *_encoder_checks(paths, leg, manifest),
    ]


def _of(leg: LegEntry) -> str:
    """Behind the name of a check: which leg it is of, where it is not of the first."""
    return "" if leg.channel == DENSE_LEGS[0] else f" ({leg.channel})"


def _strange_texts(paths: BundlePaths) -> int:
    """Shards whose file of texts is not the texts of their table, one behind the other."""
    from codequarry.schemas.tables import read_table

    texts, tables = paths.text_files(), paths.table_files("chunks")
    strange = abs(len(texts) - len(tables))
    for (_, file), table in zip(sorted(texts.items()), tables, strict=False):
        digest = hashlib.sha256()
        for chunk in read_table(table, ["text"])["text"].chunks:
            _, _, data = chunk.buffers()
            offsets = np.frombuffer(chunk.buffers()[1], np.int32)[chunk.offset :][: len(chunk) + 1]
            digest.update(memoryview(data)[offsets[0] : offsets[-1]])
        strange += digest.hexdigest() != file_sha256(file)
    return strange


def _promised_rows(manifest: Manifest) -> Counter[str]:
    """Rows of each table by the manifest, over all its shards."""
    promised: Counter[str] = Counter()
    known = _views(manifest)
    for entry in manifest.files:
        folder, _, file = entry.path.rpartition("/")
        name = file.partition(".")[0]
        if folder == "tables" and entry.rows is not None and name in known:
            promised[name] += entry.rows
    return promised


def _connected(paths: BundlePaths, manifest: Manifest) -> duckdb.DuckDBPyConnection:
    """Our views over the version's files, `_HELD` before them, its catalog as ``published``, and no way out."""
    import duckdb

    folder, catalog = (str(path).replace("'", "''") for path in (paths.path, paths.catalog))
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
    try:
        connection.execute(set_bundle(str(paths.path)))
        connection.execute("SET parquet_metadata_cache = true")  # every check reads the same files
        connection.execute(f"SET allowed_directories = ['{folder}']")
        connection.execute("SET enable_external_access = false")
        connection.execute(f"ATTACH '{catalog}' AS published (READ_ONLY)")
        for name, sql in _views(manifest).items():
            connection.execute(f"CREATE VIEW {name} AS {sql}")
        connection.execute("CREATE SCHEMA held")
        tables = [paths.leg(leg.channel).embeddings for leg in manifest.legs]
        for name, sql in {**_HELD, **{table: _HELD_VECTORS.format(embeddings=table) for table in tables}}.items():
            connection.execute(f"CREATE TABLE held.{name} AS {sql}")
        connection.execute("SET search_path = 'held,main'")
    except duckdb.Error:
        connection.close()
        raise
    return connection


def _views(manifest: Manifest) -> dict[str, str]:
    return views(*(leg.encoder.dim for leg in manifest.legs))


def _encoder_checks(paths: BundlePaths, leg: LegEntry, manifest: Manifest) -> list[Check]:
    """The query encoder is the one that made the vectors, by its description and by the manifest's checksums."""
    folder, expected = paths.encoder.name, leg.encoder
    try:
        spec = EncoderSpec.load(paths.encoder)
    except CodequarryError:
        return [Check(f"query encoder{_of(leg)}", False, f"no readable {folder}/{SPEC_FILE}", "an encoder")]
    listed = {entry.path: entry.sha256 for entry in manifest.files}
    strange = sum(listed.get(f"{folder}/{name}") != sha256 for name, sha256 in spec.sha256.items())
    same = spec.fingerprint == expected.fingerprint
    return [
        Check(f"fingerprint of the query encoder{_of(leg)}", same, spec.fingerprint[:12], expected.fingerprint[:12]),
        _equal(f"dimension of the query encoder{_of(leg)}", spec.dim, expected.dim),
        _equal(f"files of the query encoder that are not the described ones{_of(leg)}", strange, 0),
    ]


def _warp_checks(paths: BundlePaths, manifest: Manifest, chunk_ids: np.ndarray) -> list[Check]:
    """The late-interaction index is whole, holds the same chunks, and refers to nothing that is not there."""
    if manifest.warp is None:
        return [_equal("files of late interaction that the manifest knows nothing of", int(paths.warp.exists()), 0)]
    try:
        spec = WarpSpec.load(paths.warp)
        arrays = map_arrays(paths.warp, spec)
        encoder = EncoderSpec.load(paths.warp / ENCODER_FOLDER)
    except CodequarryError as error:
        return [Check("late-interaction index", False, error.message, "a whole index")]
    strange = np.count_nonzero((arrays["pids"] < 0) | (arrays["pids"] >= spec.documents))
    if "doc_centroids" in arrays:
        strange += np.count_nonzero(arrays["doc_centroids"].astype(np.int64) >= spec.centroids)
    promised = (manifest.warp.documents, manifest.warp.tokens, manifest.warp.centroids, manifest.warp.profile)
    others = _differing(arrays["chunk_ids"], np.sort(chunk_ids))
    return [
        _equal("documents of late interaction that are not the chunks", others, 0),
        _equal("postings and tokens of late interaction that lead nowhere", int(strange), 0),
        Check(
            "size of the late-interaction index",
            (spec.documents, spec.tokens, spec.centroids, spec.profile) == promised,
            f"{spec.documents} chunks, {spec.tokens} tokens",
            f"{manifest.warp.documents} chunks, {manifest.warp.tokens} tokens",
        ),
        Check(
            "fingerprint of the token encoder",
            {encoder.fingerprint, spec.encoder} == {manifest.warp.encoder.fingerprint},
            encoder.fingerprint[:12],
            manifest.warp.encoder.fingerprint[:12],
        ),
    ]


def _faiss_ids(paths: BundlePaths) -> tuple[np.ndarray, set[int]]:
    """The index's own ids over all shards, (n,) int64, and their dimensions.

    Raises IntegrityError: one is no index with an id map.
    """
    import faiss

    ids: list[np.ndarray] = []
    dims: set[int] = set()
    for file in paths.faiss_indexes():
        try:
            index = faiss.read_index(str(file), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            raise IntegrityError(f"FAISS cannot read {file.name}", suggestion="roll back, or index again") from error
        if not isinstance(index, faiss.IndexIDMap2):
            raise IntegrityError(f"{file.name} has no id map", suggestion="roll back, or index again")
        ids.append(faiss.vector_to_array(index.id_map))
        dims.add(index.d)
    return np.concatenate(ids or [np.empty(0, np.int64)]), dims


def _differing(own: np.ndarray, sidecar: np.ndarray) -> int:
    """Rows in which the index's own ids and the sidecar's, (n,) int64 each, differ."""
    if len(own) != len(sidecar):
        return abs(len(own) - len(sidecar))
    return int((own != sidecar).sum())


def _equal(name: str, found: int, expected: int) -> Check:
    return Check(name, found == expected, str(found), str(expected))


def _scalar(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return int(row[0])
