"""Stage 6: a staged version is checked before it may be published."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

from codequarry.pipelines.staging import read_pointer, staged_pointer
from codequarry.pipelines.staging_folder import using
from codequarry.pipelines.workspace import Progress, silent, write_json
from codequarry.schemas.catalog import set_bundle
from codequarry.schemas.errors import CodequarryError, PublishError
from codequarry.schemas.integrity import file_sha256, read_manifest, verify
from codequarry.schemas.layout import BundlePaths
from codequarry.schemas.lexical import open_searcher
from codequarry.schemas.manifest import Manifest
from codequarry.schemas.settings import Settings

_NORM_TOLERANCE = 1e-3

_MUST_BE_ZERO: dict[str, str] = {
    "duplicate chunk ids": "SELECT count(*) - count(DISTINCT chunk_id) FROM chunks",
    "chunk ids that are not positive": "SELECT count(*) FROM chunks WHERE chunk_id <= 0",
    "rows of v_faiss_join with a missing side": "SELECT count(*) FROM v_faiss_join "
    "WHERE idmap_chunk_id IS NULL OR path IS NULL",
    "vectors that are not of unit norm": "SELECT count(*) FROM embeddings "
    f"WHERE NOT coalesce(abs(list_inner_product(vector, vector) - 1) < {_NORM_TOLERANCE}, false)",
    "embeddings without a chunk, or chunks without one": "SELECT count(*) FROM embeddings "
    "FULL JOIN chunks USING (chunk_id) WHERE vector IS NULL OR path IS NULL",
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
    "FULL JOIN (SELECT chunk_id, len(symbols) AS listed FROM chunks WHERE len(symbols) > 0) USING (chunk_id) "
    "WHERE found IS DISTINCT FROM listed",
    "references that do not lie in their chunk": "SELECT count(*) FROM ast_references AS reference LEFT JOIN chunks "
    "AS chunk ON chunk.chunk_id = reference.chunk_id AND chunk.repo = reference.repo AND chunk.path = reference.path "
    "AND reference.start_byte >= chunk.start_byte AND reference.start_byte < chunk.end_byte "
    "WHERE chunk.chunk_id IS NULL",
    "leaf kinds of no chunk": "SELECT count(*) FROM cst_nodes ANTI JOIN chunks USING (repo, path, chunk_id)",
    "chunks whose lines or bytes are out of order": "SELECT count(*) FROM chunks "
    "WHERE end_byte <= start_byte OR end_line < start_line OR start_byte < 0 OR start_line < 0",
    "SCIP occurrences outside of the indexed files": "SELECT count(*) FROM scip_occurrences LEFT JOIN "
    "(SELECT repo, path, size_bytes FROM files WHERE skip_reason = '') AS files USING (repo, path) "
    "WHERE size_bytes IS NULL OR start_byte < 0 OR end_byte < start_byte OR end_byte > size_bytes",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One check and what it saw."""

    name: str
    passed: bool
    found: str
    expected: str


@dataclass(frozen=True, slots=True)
class Verification:
    """Every check of a staged version."""

    version: str
    path: Path
    checks: tuple[Check, ...]

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.passed)


def verified_pointer(settings: Settings) -> Path:
    """The file that tells the publish stage which version passed."""
    return settings.paths.work / "verified.json"


def verify_staged(settings: Settings, progress: Progress = silent) -> Verification:
    """Run every check on the staged version and record that it passed.

    Raises PublishError: nothing is staged, or a check failed (its message names each). IntegrityError: the files
    differ from the manifest. A version that fails is removed; CURRENT is as it was.
    """
    paths = BundlePaths(Path(read_pointer(staged_pointer(settings), "staged")["path"]))
    verified_pointer(settings).unlink(missing_ok=True)
    progress("verifying", 0, 1)
    with using(paths.path):
        try:
            result = _verified(paths, settings)
        except CodequarryError:
            shutil.rmtree(paths.path, ignore_errors=True)
            staged_pointer(settings).unlink()
            raise
    progress("verifying", 1, 1)
    write_json(verified_pointer(settings), {"path": str(paths.path), "manifest_sha256": file_sha256(paths.manifest)})
    return result


def _verified(paths: BundlePaths, settings: Settings) -> Verification:
    manifest = read_manifest(paths)
    verify(paths, manifest, deep=True)
    result = Verification(manifest.version, paths.path, tuple(_run(paths, manifest, settings)))
    if result.failed:
        reasons = "; ".join(f"{check.name}: {check.found}, expected {check.expected}" for check in result.failed)
        raise PublishError(
            f"the staged version {manifest.version} is not fit to publish: {reasons}",
            suggestion="CURRENT is unchanged; fix the cause or change [checks], then index again",
        )
    return result


def _run(paths: BundlePaths, manifest: Manifest, settings: Settings) -> list[Check]:
    checks = [Check("files match the manifest", True, f"{len(manifest.files)} files", "every sha256")]
    with closing(duckdb.connect(str(paths.catalog), read_only=True)) as connection:
        connection.execute(set_bundle(str(paths.path)))
        for name, sql in _MUST_BE_ZERO.items():
            found = _scalar(connection, sql)
            checks.append(Check(name, found == 0, str(found), "0"))
        rows = {
            "chunks": _scalar(connection, "SELECT count(*) FROM chunks"),
            "chunks_mat": _scalar(connection, "SELECT count(*) FROM chunks_mat"),
            "faiss_idmap": _scalar(connection, "SELECT count(*) FROM faiss_idmap"),
            "bm25": _bm25_rows(paths),
        }
        sidecar = connection.execute("SELECT chunk_id FROM faiss_idmap ORDER BY faiss_row").fetchnumpy()["chunk_id"]
    for name, count in rows.items():
        checks.append(
            Check(f"rows of {name}", count == manifest.counts.chunks, str(count), str(manifest.counts.chunks))
        )
    differing = _differing_ids(paths, sidecar)
    checks.append(Check("ids in FAISS that differ from its id map", differing == 0, str(differing), "0"))
    checks += _plausible(manifest, settings)
    return checks


def _plausible(manifest: Manifest, settings: Settings) -> list[Check]:
    counts, limits = manifest.counts, settings.checks
    share = counts.files / max(1, counts.files + counts.skipped_files)
    return [
        Check("chunks", counts.chunks >= limits.min_chunks, str(counts.chunks), f"at least {limits.min_chunks}"),
        Check(
            "share of files indexed",
            share >= limits.min_indexed_share,
            f"{share:.3f}",
            f"at least {limits.min_indexed_share}",
        ),
    ]


def _scalar(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return int(row[0])


def _differing_ids(paths: BundlePaths, sidecar: np.ndarray) -> int:
    """Rows in which the index's own ids and the sidecar's, (n,) int64 each, differ."""
    import faiss

    index = faiss.read_index(str(paths.faiss_index), faiss.IO_FLAG_MMAP_IFC)
    assert isinstance(index, faiss.IndexIDMap2)
    own = faiss.vector_to_array(index.id_map)
    if len(own) != len(sidecar):
        return abs(len(own) - len(sidecar))
    return int(np.count_nonzero(own != sidecar))


def _bm25_rows(paths: BundlePaths) -> int:
    return open_searcher(paths.bm25)[0].num_docs
