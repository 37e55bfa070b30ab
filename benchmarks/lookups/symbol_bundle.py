"""A version for look-ups of symbols alone: no vectors, no encoder, and no Node.

Installed packages are cut and parsed as usual. Their definitions become SCIP symbols and their identifiers occurrences
of some definition of that name: resolution is nonsense, but counts, sizes and skew are those of real code.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import shutil
import time
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq

from benchmarks.corpus import package_folder
from codequarry.pipelines.bundle.catalog import build_catalog
from codequarry.pipelines.modules.stage import module_repository
from codequarry.pipelines.sources.snapshot import snapshot_repository
from codequarry.pipelines.store.workspace import RepositoryWork, repository_work
from codequarry.pipelines.syntax.stage import chunk_repository
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot, Current
from codequarry.schemas.bundle.manifest import Counts, EncoderEntry, FaissEntry, FileEntry, Manifest, to_json
from codequarry.schemas.bundle.tables import FAISS_IDMAP, SCHEMAS, TableWriter, write_table, write_vectors
from codequarry.schemas.settings.load import PathsSettings, RepositorySettings, Settings
from codequarry.serving.files.compatibility import compatibility
from codequarry.serving.files.integrity import file_sha256, list_files
from codequarry.serving.version.open import Bundle

PACKAGES = ("dagster", "sqlalchemy", "dagster_graphql", "alembic")
_DIM = 4
_VERSION = "20260101T000000Z-00000000"

_OF_NODE = """concat('synthetic . ', repo, ' . `', path, '`/', replace(qualified_name, '.', '#'), '+',
                       name_start_byte::INTEGER,
                       CASE WHEN kind IN ('function', 'method') THEN '().' WHEN kind = 'class' THEN '#' ELSE '.' END)"""
_SYNTHETIC: dict[str, str] = {
    "scip_documents": """
        SELECT repo, path, lang, 'synthetic 1' AS indexer, 'utf-8' AS position_encoding,
               0 AS symbols, 0 AS occurrences, 0 AS dropped FROM files WHERE skip_reason = ''""",
    "scip_symbols": f"""
        SELECT repo, path, {_OF_NODE} AS symbol, 'synthetic' AS scheme, '' AS manager, repo AS package, '' AS version,
               qualified_name AS descriptors, path AS namespace, concat(path, '.', qualified_name) AS qualified_name,
               name AS display_name, kind, signature, doc AS documentation, []::VARCHAR[] AS relationships,
               '' AS enclosing_symbol FROM ast_nodes""",
    "scip_occurrences": f"""
        WITH named AS (
            SELECT name, list({_OF_NODE} ORDER BY repo, path, name_start_byte) AS symbols FROM ast_nodes GROUP BY name
        ),
        placed AS (
            SELECT repo, path, {_OF_NODE} AS symbol, name, name_start_byte AS start_byte, name_start_line AS start_line,
                   name_start_column AS start_column, 1 AS roles FROM ast_nodes
            UNION ALL
            SELECT repo, path, symbols[1 + (hash(path, start_byte) % len(symbols))::INTEGER], name, start_byte,
                   start_line, start_column, 8 FROM ast_references JOIN named USING (name)
        )
        SELECT repo, path, symbol, start_byte, start_byte + strlen(name) AS end_byte, start_line, start_column,
               start_line AS end_line, start_column + strlen(name) AS end_column, roles, roles = 1 AS is_definition,
               false AS is_import, false AS is_write, roles = 8 AS is_read, false AS is_generated, false AS is_test,
               -1 AS enclosing_start_byte, -1 AS enclosing_end_byte FROM placed""",
}


def build(home: Path) -> tuple[BundlePaths, float]:
    """Build the version in a folder, anew. Returns it and the CPU seconds the catalog took."""
    shutil.rmtree(home, ignore_errors=True)
    works = [_work(home, name) for name in PACKAGES]
    root = BundleRoot(home / "bundles")
    paths = root.version(_VERSION)
    paths.tables.mkdir(parents=True)
    for name, schema in SCHEMAS.items():
        if name not in _SYNTHETIC:
            with TableWriter(paths.table(name), schema) as writer:
                for file in (file for work in works for file in work.tables(name)):
                    writer.write(pq.read_table(file))
    place = [(name, "ascending") for name in ("repo", "path", "start_byte")]
    chunks = pq.read_table(paths.table("chunks")).sort_by(place)
    write_table(paths.table("chunks"), chunks, SCHEMAS["chunks"], paged="text")
    _synthesize(paths)
    write_vectors(paths.table("embeddings"), np.empty(0, np.int64), np.empty((0, _DIM), np.float32))
    write_table(paths.faiss_idmap, FAISS_IDMAP.empty_table(), FAISS_IDMAP)
    started = time.process_time()
    build_catalog(paths, _DIM)
    seconds = time.process_time() - started
    _seal(root, paths)
    return paths, seconds


def open_bundle(paths: BundlePaths) -> Bundle:
    """The version, with no channel."""
    return Bundle.open_current(paths.path.parents[1], channels=())


def _seal(root: BundleRoot, paths: BundlePaths) -> None:
    """Write the manifest, and CURRENT."""
    files = tuple(
        FileEntry(path=name, size_bytes=(paths.path / name).stat().st_size, sha256=file_sha256(paths.path / name))
        for name in list_files(paths.path)
    )
    manifest = Manifest(
        version=_VERSION, created="2026-01-01T00:00:00Z", digest="0" * 64, settings_sha256="0" * 64,
        tools={}, sources=(),
        encoder=EncoderEntry(name="none", fingerprint="0" * 64, dim=_DIM), faiss=FaissEntry(factory="Flat", exact=True),
        counts=Counts(files=0, skipped_files=0, chunks=pq.read_metadata(paths.table("chunks")).num_rows), files=files,
        compatibility=compatibility("0" * 64),
    )  # fmt: skip
    paths.manifest.write_bytes(to_json(manifest))
    root.current.write_text(Current(_VERSION, file_sha256(paths.manifest)).line(), encoding="ascii")


def _work(home: Path, name: str) -> RepositoryWork:
    repository = RepositorySettings(path=package_folder(name), name=name)
    settings = Settings(paths=PathsSettings(store=home / "store", work=home / "work"))
    snapshot_repository(repository, settings)
    chunk_repository(name, settings)
    module_repository(name, settings)
    return repository_work(settings.paths.work, name)


def _synthesize(paths: BundlePaths) -> None:
    with closing(duckdb.connect()) as connection:
        for name in ("files", "ast_nodes", "ast_references"):
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{paths.table(name)}')")
        for name, sql in _SYNTHETIC.items():
            table = connection.sql(f"SELECT * FROM ({sql}) ORDER BY repo, path").to_arrow_table()
            write_table(paths.table(name), table, SCHEMAS[name])
