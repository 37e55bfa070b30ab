"""Checks of a complete version by its files, for the gate before a publish and for the doctor.

The SQL runs over the version's Parquet files through this program's own views. The version's catalog is attached
read-only and only counted and compared. A version may come from anywhere, so nothing outside of its folder can be read.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false
# FAISS ships no type stubs.

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from codequarry.schemas.bundle.index_spec import ENCODER_FOLDER
from codequarry.schemas.bundle.layout import FAISS_IDMAP_FILE, BundlePaths, embeddings_table
from codequarry.schemas.bundle.manifest import LegEntry, Manifest
from codequarry.schemas.bundle.splade import SpladeSpec
from codequarry.schemas.bundle.warp import WarpSpec
from codequarry.schemas.catalog.views import set_bundle, views
from codequarry.schemas.errors import CodequarryError, IntegrityError, UnavailableError
from codequarry.schemas.gates.expectation import EXAMPLES, Outcome, Suite, build_frames, example_of, run_suite
from codequarry.schemas.gates.suites import NORM_TOLERANCE, OF_TABLES, embeddings_suite, of_leg
from codequarry.schemas.languages import MODULE_LANGUAGES
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.serving.channels import splade_index
from codequarry.serving.channels.warp.index import map_arrays
from codequarry.serving.encoders.spec import SPEC_FILE, EncoderSpec
from codequarry.serving.files.file_index import FileIndex
from codequarry.serving.text.lexical import indexed_ids

if TYPE_CHECKING:
    import duckdb

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
    "chunks whose text the catalog looks for elsewhere": "SELECT * FROM ("
    "SELECT chunk_id, text_start, lag(text_start + text_bytes, 1, 0) OVER "
    "(PARTITION BY shard ORDER BY repo, path, start_byte) AS expected FROM published.chunks_mat) "
    "WHERE text_start <> expected",
    "files that the catalog holds otherwise": "SELECT repo, path FROM files FULL JOIN published.files_mat AS held "
    "USING (repo, path) WHERE files.sha256 IS DISTINCT FROM held.sha256",
    "rows of the id map that the catalog holds otherwise": "SELECT faiss_row, faiss_idmap.chunk_id, "
    "held.chunk_id AS held_chunk_id FROM faiss_idmap FULL JOIN published.faiss_idmap_mat AS held USING (faiss_row) "
    "WHERE faiss_idmap.chunk_id IS DISTINCT FROM held.chunk_id",
    "definitions without a row in symbols_mat": "SELECT ast_nodes.repo, ast_nodes.path, ast_nodes.qualified_name "
    "FROM ast_nodes ANTI JOIN published.symbols_mat AS row "
    "ON row.repo = ast_nodes.repo AND row.path = ast_nodes.path AND row.start_byte = name_start_byte",
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


_INDEXED_FILES = """
SELECT row FROM (SELECT row_number() OVER (ORDER BY repo, path) - 1 AS row, indexed FROM files)
WHERE indexed ORDER BY row
"""


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its result."""

    name: str
    passed: bool
    found: str
    expected: str
    examples: tuple[str, ...] = ()
    """At most three offending rows, values or queries."""
    regression: bool = False
    """True for a comparison with CURRENT, which may be accepted by name and reason."""
    warning: str = ""
    """For whoever publishes, though the check passed."""


def check_version(paths: BundlePaths, manifest: Manifest) -> list[Check]:
    """Run every check of a version whose files are those of its manifest.

    Args:
        paths: Paths of the version.
        manifest: Manifest of the version.

    Returns:
        The checks.

    Raises:
        IntegrityError: A table or an index cannot be read at all.
        ResourcesError: Nothing can be read now.
    """
    try:
        return _check_tables(paths, manifest)
    except (CodequarryError, OSError, RuntimeError, MemoryError) as error:
        raise_if_exhausted(error, f"version {manifest.version} cannot be checked now")
        raise


def _check_tables(paths: BundlePaths, manifest: Manifest) -> list[Check]:
    import duckdb

    try:
        with closing(open_tables(paths, manifest)) as connection:
            checks = _table_checks(connection, manifest)
            chunk_ids = _column(connection, "SELECT chunk_id FROM main.chunks ORDER BY chunk_id")
            indexed = _column(connection, _INDEXED_FILES)
            sidecar = _column(connection, "SELECT chunk_id FROM main.faiss_idmap ORDER BY faiss_row")
    except duckdb.Error as error:
        raise IntegrityError(
            f"the tables of {manifest.version} cannot be read ({type(error).__name__}: {str(error).splitlines()[0]})",
            suggestion="roll back to another version, or index again",
        ) from error
    checks.append(_equal("files of texts that are not those of the chunks", _strange_texts(paths, manifest), 0))
    checks += _id_checks(paths, manifest, chunk_ids)
    for leg in manifest.legs:
        checks += _leg_checks(paths.leg(leg.channel), leg, manifest, sidecar)
    checks.append(_file_index_check(paths, indexed, manifest.encoder.dim))
    sparse = splade_index.compare_splade(paths, manifest)
    checks += _warp_checks(paths, manifest)
    return [*checks, *(Check(name, found == expected, found, expected) for name, found, expected in sparse)]


def suites_of(manifest: Manifest) -> tuple[Suite, ...]:
    """Return the suites of a version's tables, dependencies first."""
    return (*OF_TABLES, *(embeddings_suite(leg.channel, leg.encoder.dim) for leg in manifest.legs))


def as_check(outcome: Outcome) -> Check:
    """Convert an expectation and the number of rows that broke it into a check."""
    return Check(
        outcome.expectation.name, outcome.passed, outcome.count_text, outcome.expectation.allowed,
        () if outcome.passed else outcome.examples,
    )  # fmt: skip


def _table_checks(connection: duckdb.DuckDBPyConnection, manifest: Manifest) -> list[Check]:
    """Check that rows, tables and catalog agree, and have the counts that the manifest promises."""
    checks = [as_check(outcome) for suite in suites_of(manifest) for outcome in run_suite(connection, suite)]
    of_legs = {
        f"{name}{of_leg(leg.channel)}": sql.format(embeddings=embeddings_table(leg.channel))
        for leg in manifest.legs
        for name, sql in OF_EACH_LEG.items()
    }
    checks += [_none_of(connection, name, sql) for name, sql in {**NOTHING_OF, **of_legs, **CATALOG_DIFFERS}.items()]
    precise = "SELECT count(*) FROM published.occurrences_mat WHERE precise"
    lost = _scalar(connection, "SELECT count(*) FROM main.scip_occurrences") - _scalar(connection, precise)
    checks.append(_equal("SCIP occurrences lost or doubled", lost, 0))
    for name, expected in _promised_rows(manifest).items():
        found = _scalar(connection, f"SELECT count(*) FROM main.{name}")
        checks.append(_equal(f"rows of table {name}", found, expected))
    idmap = next(entry for entry in manifest.files if entry.path == FAISS_IDMAP_FILE)
    made_from = f"SELECT * FROM published.faiss_idmap_mat_meta WHERE parquet_sha256 <> '{idmap.sha256}'"
    checks.append(_none_of(connection, "id map of the catalog that is not the version's", made_from))
    for name in ("main.chunks", "published.chunks_mat", "main.faiss_idmap"):
        found = _scalar(connection, f"SELECT count(*) FROM {name}")
        checks.append(_equal(f"rows of {name.rpartition('.')[2]}", found, manifest.counts.chunks))
    return checks


def _none_of(connection: duckdb.DuckDBPyConnection, name: str, sql: str) -> Check:
    """Check that a SELECT finds nothing."""
    found = _scalar(connection, f"SELECT count(*) FROM ({sql})")
    rows: list[tuple[object, ...]] = []
    columns: list[str] = []
    if found:
        cursor = connection.execute(f"SELECT * FROM ({sql}) ORDER BY ALL LIMIT {EXAMPLES}")
        columns, rows = [column[0] for column in cursor.description or ()], cursor.fetchall()
    examples = tuple(example_of(dict(zip(columns, row, strict=True))) for row in rows)
    return Check(name, not found, str(found), "0", examples)


def _id_checks(paths: BundlePaths, manifest: Manifest, chunk_ids: np.ndarray) -> list[Check]:
    """Check that every index holds each chunk once.

    Args:
        paths: Paths of the version.
        manifest: Manifest of the version.
        chunk_ids: (n,) int64, sorted.

    Returns:
        The checks.
    """
    checks: list[Check] = []
    for index, read in _IDS_OF.items():
        own = read(paths, manifest)
        if own is None:
            continue
        strange = np.setxor1d(own, chunk_ids)
        doubled = len(own) - len(np.unique(own))
        examples = tuple(f"chunk_id={chunk}" for chunk in strange[:EXAMPLES].tolist())
        name = f"ids of {index} that are not those of the chunks"
        checks.append(Check(name, not len(strange) + doubled, str(len(strange) + doubled), "0", examples))
    return checks


def _warp_ids(paths: BundlePaths, manifest: Manifest) -> np.ndarray | None:
    try:
        return map_arrays(paths.warp, WarpSpec.load(paths.warp))["chunk_ids"] if manifest.warp is not None else None
    except CodequarryError as error:
        raise_if_exhausted(error, "a part of the version cannot be read now")
        return None  # the check of the index as a whole says so


def _splade_ids(paths: BundlePaths, manifest: Manifest) -> np.ndarray | None:
    try:
        spec = None if manifest.splade is None else SpladeSpec.load(paths.splade)
        return None if spec is None else splade_index.map_arrays(paths.splade, spec)["chunk_ids"]
    except CodequarryError as error:
        raise_if_exhausted(error, "a part of the version cannot be read now")
        return None


_IDS_OF: dict[str, Callable[[BundlePaths, Manifest], np.ndarray | None]] = {
    "FAISS": lambda paths, _manifest: _faiss_ids(paths)[0],
    "BM25": lambda paths, _manifest: indexed_ids(paths.bm25),
    "WARP": _warp_ids,
    "SPLADE": _splade_ids,
}
"""Ids an index holds, (n,) int64 in any order, None where a version has no such index."""


def _file_index_check(paths: BundlePaths, rows: np.ndarray, dim: int) -> Check:
    """Check that the index of files matches the indexed files, and that summary vectors have unit norm or are zero."""
    expected = f"{len(rows)} files"
    try:
        cards = FileIndex.open(paths.files, rows, dim).cards
    except UnavailableError as error:
        raise_if_exhausted(error, "a part of the version cannot be read now")
        return Check("index of files", False, error.message, expected)
    norms = np.concatenate([np.linalg.norm(each, axis=1) for each in cards.values()] or [np.empty(0)])
    strange = int((~((np.abs(norms - 1) < NORM_TOLERANCE) | (norms == 0))).sum())
    found = f"{strange} cards that are no unit vectors" if strange else expected
    return Check("index of files", not strange, found, expected)


def _leg_checks(paths: BundlePaths, leg: LegEntry, manifest: Manifest, sidecar: np.ndarray) -> list[Check]:
    """Check that a dense index holds the id map's chunks, and that its encoder made the vectors."""
    own, dims = _faiss_ids(paths)
    expected = {leg.encoder.dim}
    return [
        _equal(f"ids in FAISS that differ from its id map{of_leg(leg.channel)}", _differing(own, sidecar), 0),
        Check(f"dimension of the FAISS index{of_leg(leg.channel)}", dims == expected, str(dims), str(expected)),
        *_encoder_checks(paths, leg, manifest),
    ]


def _strange_texts(paths: BundlePaths, manifest: Manifest) -> int:
    """Count the shards whose file of texts differs from the texts of their table, one after another."""
    from codequarry.schemas.bundle.tables import read_table

    texts, tables = paths.text_files(), paths.table_files("chunks")
    held = {entry.path: entry.sha256 for entry in manifest.files}
    strange = abs(len(texts) - len(tables))
    for (_, file), table in zip(sorted(texts.items()), tables, strict=False):
        digest = hashlib.sha256()
        for chunk in read_table(table, ["text"])["text"].chunks:
            _, _, data = chunk.buffers()
            offsets = np.frombuffer(chunk.buffers()[1], np.int32)[chunk.offset :][: len(chunk) + 1]
            digest.update(memoryview(data)[offsets[0] : offsets[-1]])
        strange += digest.hexdigest() != held.get(file.name)
    return strange


def _promised_rows(manifest: Manifest) -> Counter[str]:
    """Return the number of rows of each table by the manifest, over all its shards."""
    promised: Counter[str] = Counter()
    known = _views(manifest)
    for entry in manifest.files:
        folder, _, file = entry.path.rpartition("/")
        name = file.partition(".")[0]
        if folder == "tables" and entry.rows is not None and name in known:
            promised[name] += entry.rows
    return promised


def open_tables(
    paths: BundlePaths, manifest: Manifest, suites: Sequence[Suite] | None = None
) -> duckdb.DuckDBPyConnection:
    """Open our views over the version's files, with the suites' frames and its catalog as ``published``.

    The connection can read nothing else.

    Args:
        paths: Paths of the version.
        manifest: Manifest of the version.
        suites: Suites whose frames are made, dependencies first; None for all.

    Returns:
        The connection.
    """
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
        build_frames(connection, suites_of(manifest) if suites is None else suites)
    except duckdb.Error:
        connection.close()
        raise
    return connection


def _views(manifest: Manifest) -> dict[str, str]:
    return views(*(leg.encoder.dim for leg in manifest.legs))


def _encoder_checks(paths: BundlePaths, leg: LegEntry, manifest: Manifest) -> list[Check]:
    """Check that the query encoder made the vectors, by its description and by the manifest's checksums."""
    folder, expected, mark = paths.encoder.name, leg.encoder, of_leg(leg.channel)
    try:
        spec = EncoderSpec.load(paths.encoder)
    except CodequarryError as error:
        raise_if_exhausted(error, "a part of the version cannot be read now")
        return [Check(f"query encoder{mark}", False, f"no readable {folder}/{SPEC_FILE}", "an encoder")]
    listed = {entry.path: entry.sha256 for entry in manifest.files}
    strange = sum(listed.get(f"{folder}/{name}") != sha256 for name, sha256 in spec.sha256.items())
    same = spec.fingerprint == expected.fingerprint
    return [
        Check(
            f"fingerprint of the query encoder{mark}",
            same,
            spec.fingerprint[:12],
            expected.fingerprint[:12],
        ),
        _equal(f"dimension of the query encoder{mark}", spec.dim, expected.dim),
        _equal(f"files of the query encoder that are not the described ones{mark}", strange, 0),
    ]


def _warp_checks(paths: BundlePaths, manifest: Manifest) -> list[Check]:
    """Check that the late-interaction index is complete, and that all its references exist."""
    if manifest.warp is None:
        return [_equal("files of late interaction that the manifest knows nothing of", int(paths.warp.exists()), 0)]
    try:
        spec = WarpSpec.load(paths.warp)
        arrays = map_arrays(paths.warp, spec)
        encoder = EncoderSpec.load(paths.warp / ENCODER_FOLDER)
    except CodequarryError as error:
        raise_if_exhausted(error, "a part of the version cannot be read now")
        return [Check("late-interaction index", False, error.message, "a whole index")]
    strange = np.count_nonzero((arrays["pids"] < 0) | (arrays["pids"] >= spec.documents))
    if "doc_centroids" in arrays:
        strange += np.count_nonzero(arrays["doc_centroids"].astype(np.int64) >= spec.centroids)
    promised = (manifest.warp.documents, manifest.warp.tokens, manifest.warp.centroids, manifest.warp.profile)
    return [
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
    """Read the index's own ids over all shards, and their dimensions.

    Args:
        paths: Paths of the version.

    Returns:
        Ids, (n,) int64, and the set of dimensions.

    Raises:
        IntegrityError: A shard is not an index with an id map.
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
    """Count the rows in which the index's own ids and the sidecar's, (n,) int64 each, differ."""
    if len(own) != len(sidecar):
        return abs(len(own) - len(sidecar))
    return int((own != sidecar).sum())


def _equal(name: str, found: int, expected: int) -> Check:
    return Check(name, found == expected, str(found), str(expected))


def _scalar(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return int(row[0])


def _column(connection: duckdb.DuckDBPyConnection, sql: str) -> np.ndarray:
    (values,) = connection.execute(sql).fetchnumpy().values()
    return np.asarray(values)
