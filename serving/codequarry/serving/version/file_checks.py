"""Checks of a complete version by its files, for the gate before a publish and for the doctor.

The SQL runs over the version's Parquet files through this program's own views. The version's catalog is attached
read-only and only counted and compared. A version may come from anywhere, so nothing outside of its folder can be read.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false
# FAISS ships no type stubs.

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from codequarry.schemas.bundle.index_spec import ENCODER_FOLDER
from codequarry.schemas.bundle.layout import FAISS_IDMAP_FILE, BundlePaths, embeddings_table
from codequarry.schemas.bundle.manifest import LegEntry, Manifest
from codequarry.schemas.bundle.splade import SpladeSpec
from codequarry.schemas.bundle.warp import WarpSpec
from codequarry.schemas.catalog.views import OPEN_SQL, limit_memory, set_bundle, views
from codequarry.schemas.errors import CodequarryError, IntegrityError, UnavailableError
from codequarry.schemas.gates.expectation import EXAMPLES, Outcome, Suite, build_frames, example_of, run_suite
from codequarry.schemas.gates.sql_checks import CATALOG_DIFFERS, NOTHING_OF, OF_EACH_LEG, OF_WHOLE_REPOSITORIES
from codequarry.schemas.gates.suites import NORM_TOLERANCE, OF_TABLES, embeddings_suite, of_leg
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.serving.catalog.chunk_arrays import RowIndex
from codequarry.serving.catalog.texts import MappedTexts
from codequarry.serving.channels import splade_index
from codequarry.serving.channels.vector_table import map_codes
from codequarry.serving.channels.warp.index import map_arrays
from codequarry.serving.encoders.spec import SPEC_FILE, EncoderSpec
from codequarry.serving.files.file_index import FileIndex
from codequarry.serving.text.lexical import indexed_ids
from codequarry.serving.version.check import Check
from codequarry.serving.version.stack_checks import check_stack

if TYPE_CHECKING:
    import duckdb

_INDEXED_FILES = """
SELECT row FROM (SELECT row_number() OVER (ORDER BY repo, path) - 1 AS row, indexed FROM files)
WHERE indexed ORDER BY row
"""


def check_version(paths: BundlePaths, manifest: Manifest, *, spill: str = "") -> list[Check]:
    """Run every check of a version whose files are those of its manifest.

    Args:
        paths: Paths of the version.
        manifest: Manifest of the version.
        spill: Folder for what needs more than a limit of memory; "" for no limit, and nothing is written.

    Returns:
        The checks.

    Raises:
        IntegrityError: A table or an index cannot be read at all.
        ResourcesError: Nothing can be read now.
    """
    import duckdb

    try:
        try:
            return _check_tables(paths, manifest, spill)
        except duckdb.OutOfMemoryException:
            return _check_tables(paths, manifest, "")
    except (CodequarryError, OSError, RuntimeError, MemoryError) as error:
        raise_if_exhausted(error, f"version {manifest.version} cannot be checked now")
        raise


def _check_tables(paths: BundlePaths, manifest: Manifest, spill: str) -> list[Check]:
    import duckdb

    try:
        with closing(open_tables(paths, manifest, spill=spill)) as connection:
            checks = _table_checks(connection, manifest)
            chunk_ids = _column(connection, "SELECT chunk_id FROM main.chunks ORDER BY chunk_id")
            indexed = _column(connection, _INDEXED_FILES)
            sidecar = _column(connection, "SELECT chunk_id FROM main.faiss_idmap ORDER BY faiss_row")
    except duckdb.Error as error:
        if spill and isinstance(error, duckdb.OutOfMemoryException):
            raise
        raise IntegrityError(
            f"the tables of {manifest.version} cannot be read ({type(error).__name__}: {str(error).splitlines()[0]})",
            suggestion="roll back to another version, or index again",
        ) from error
    checks.append(_equal("shards whose texts are found otherwise than in their table", _strange_texts(paths), 0))
    checks.append(_equal("open.sql that is not this program's", int(not _has_our_open_sql(paths)), 0))
    checks += _id_checks(paths, manifest, chunk_ids)
    for leg in manifest.legs:
        checks += _leg_checks(paths.leg(leg.channel), leg, manifest, sidecar)
    checks.append(_file_index_check(paths, indexed, manifest.encoder.dim))
    sparse = splade_index.compare_splade(paths, manifest)
    checks += _warp_checks(paths, manifest)
    checks += (Check(name, found == expected, found, expected) for name, found, expected in sparse)
    return checks if manifest.stack is None else [*checks, *check_stack(paths, manifest, manifest.stack)]


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
    if manifest.stack is not None:
        checks = [check for check in checks if check.name not in OF_WHOLE_REPOSITORIES]
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
        checks.append(_equal(f"rows of {name.rpartition('.')[2]}", found, manifest.own_counts.chunks))
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
    "FAISS": lambda paths, manifest: _faiss_ids(paths, manifest.legs[0])[0],
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
    norms = np.concatenate(
        [np.linalg.norm(each.astype(np.float32), axis=1) for each in cards.values()] or [np.empty(0)]
    )
    strange = int((~((np.abs(norms - 1) < NORM_TOLERANCE) | (norms == 0))).sum())
    found = f"{strange} cards that are no unit vectors" if strange else expected
    return Check("index of files", not strange, found, expected)


def _leg_checks(paths: BundlePaths, leg: LegEntry, manifest: Manifest, sidecar: np.ndarray) -> list[Check]:
    """Check that a dense index holds the id map's chunks, its table their vectors, and that its encoder made these."""
    own, dims = _faiss_ids(paths, leg)
    expected = {leg.encoder.dim}
    strange = _strange_vectors(paths, leg)
    if not leg.faiss.exact:  # the ids of an exact index are those of the table
        strange += _differing(_table_ids(paths)[0], sidecar)
    return [
        _equal(f"vectors that are not where requests look for them{of_leg(leg.channel)}", strange, 0),
        _equal(f"ids in FAISS that differ from its id map{of_leg(leg.channel)}", _differing(own, sidecar), 0),
        Check(f"dimension of the FAISS index{of_leg(leg.channel)}", dims == expected, str(dims), str(expected)),
        *_encoder_checks(paths, leg, manifest),
    ]


def _table_ids(paths: BundlePaths) -> tuple[np.ndarray, set[int]]:
    """Return the ids of the tables of vectors, (n,) int64 in the order of their rows, and the dimensions of these."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from codequarry.schemas.bundle.tables import read_table

    files = paths.table_files(paths.embeddings)
    tables = [read_table(file, ["chunk_id"]) for file in files]
    kinds = [pq.read_schema(file).field("vector").type for file in files]
    dims = {kind.list_size if pa.types.is_fixed_size_list(kind) else 0 for kind in kinds}
    return np.concatenate([table["chunk_id"].to_numpy() for table in tables] or [np.empty(0, np.int64)]), dims


def _strange_vectors(paths: BundlePaths, leg: LegEntry) -> int:
    """Count the tables whose column of vectors is not what the service maps."""
    from codequarry.schemas.bundle.tables import half_schema, read_table

    strange = 0
    for file in paths.table_files(paths.embeddings):
        table = read_table(file)
        column = table["vector"].combine_chunks()
        if not table.schema.equals(half_schema(leg.encoder.dim)):
            strange += 1
            continue
        held = column.flatten().to_numpy().view(np.uint8)
        try:
            mapped = map_codes(file, len(table), leg.encoder.dim)
        except UnavailableError as error:
            raise_if_exhausted(error, "a part of the version cannot be read now")
            strange += 1
            continue
        strange += not np.array_equal(mapped.ravel(), held)
    return strange


def _strange_texts(paths: BundlePaths) -> int:
    """Count the shards in whose table a chunk has another text than a reader of ``rows/`` gets."""
    from codequarry.schemas.bundle.tables import read_table

    strange = 0
    chunks = RowIndex.open(paths.rows).chunks
    with closing(MappedTexts.open(paths)) as texts:
        for shard, file in paths.chunk_tables().items():
            table = read_table(file, ["chunk_id", "text"])
            own = chunks[chunks["shard"] == shard]
            try:
                found = texts.whole(shard)
            except IntegrityError:
                strange += 1
                continue
            expected = [text.encode() for text in table["text"].to_pylist()]
            starts = np.cumsum([0, *map(len, expected)])
            strange += not (
                np.array_equal(own["chunk_id"], table["chunk_id"].to_numpy())
                and np.array_equal(own["text_start"], starts[:-1])
                and np.array_equal(own["text_bytes"], np.diff(starts))
                and found == b"".join(expected)
            )
    return strange


def _has_our_open_sql(paths: BundlePaths) -> bool:
    """Return whether ``open.sql`` is what this program writes: DuckDB's shell would run any other command in it."""
    try:
        return paths.open_sql.read_bytes() == OPEN_SQL.encode()
    except FileNotFoundError:
        return False


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
    paths: BundlePaths, manifest: Manifest, suites: Sequence[Suite] | None = None, *, spill: str = ""
) -> duckdb.DuckDBPyConnection:
    """Open our views over the version's files, with the suites' frames and its catalog as ``published``.

    The connection can read nothing else.

    Args:
        paths: Paths of the version.
        manifest: Manifest of the version.
        suites: Suites whose frames are made, dependencies first; None for all.
        spill: Folder for what needs more than a limit of memory; "" for no limit.

    Returns:
        The connection.
    """
    import duckdb

    folder, catalog = (str(path).replace("'", "''") for path in (paths.path, paths.catalog))
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
    try:
        for statement in limit_memory(spill, paths.table_bytes()) if spill else ():
            connection.execute(statement)
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


def _faiss_ids(paths: BundlePaths, leg: LegEntry) -> tuple[np.ndarray, set[int]]:
    """Read the index's own ids over all shards, and their dimensions; an exact index is the table of its vectors.

    Args:
        paths: Paths of the version, for the dense index.
        leg: Manifest entry of the index.

    Returns:
        Ids, (n,) int64, and the set of dimensions.

    Raises:
        IntegrityError: A shard is not an index with an id map.
    """
    import faiss

    if leg.faiss.exact:
        return _table_ids(paths)
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
