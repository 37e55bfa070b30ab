"""The DuckDB catalog of a version: views over its Parquet files and the tables that requests touch."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import duckdb

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.text_pages import write_text_pages
from codequarry.schemas.catalog.views import OPEN_SQL, build_statements, catalog_statements, limit_memory, set_bundle
from codequarry.serving.catalog.chunk_arrays import RowIndex
from codequarry.serving.catalog.explanation_facts import ChunkFacts
from codequarry.serving.files.integrity import file_sha256


def build_catalog(paths: BundlePaths, *dims: int) -> str:
    """Write ``catalog.duckdb`` beside the tables it reads, and ``open.sql`` for people.

    DuckDB puts a random identifier into every file, so the bytes themselves are not reproducible.

    Args:
        paths: Paths of the version.
        *dims: Dimension of the vectors of each dense index.

    Returns:
        Digest (sha256 hex) of what the catalog was made from: its SQL and the Parquet files.
    """
    paths.open_sql.write_text(OPEN_SQL, encoding="utf-8")
    try:
        _write_catalog(paths, dims, limited=True)
    except duckdb.OutOfMemoryException:
        for file in paths.path.glob(f"{paths.catalog.name}*"):
            file.unlink()
        _write_catalog(paths, dims, limited=False)
    digest = hashlib.sha256("\n".join(build_statements(*dims)).encode())
    for file in sorted([*paths.tables.glob("*.parquet"), paths.faiss_idmap]):
        digest.update(f"\n{file.name}:{file_sha256(file)}".encode())
    return digest.hexdigest()


def write_row_index(paths: BundlePaths) -> None:
    """Write ``rows/`` and ``facts/`` of the catalog beside it."""
    try:
        index, facts = _read_rows(paths, limited=True)
    except duckdb.OutOfMemoryException:
        index, facts = _read_rows(paths, limited=False)
    index.write(paths.rows)
    write_text_pages(paths, index.chunks["shard"], index.chunks["text_bytes"])
    facts.write(paths.facts)


def _write_catalog(paths: BundlePaths, dims: Sequence[int], *, limited: bool) -> None:
    with _connect(paths, limited=limited) as connection:
        connection.execute("SET parquet_metadata_cache = true")  # every table reads the same files
        for statement in catalog_statements(str(paths.catalog), str(paths.path), *dims):
            connection.execute(statement)


def _read_rows(paths: BundlePaths, *, limited: bool) -> tuple[RowIndex, ChunkFacts]:
    with _connect(paths, str(paths.catalog), limited=limited) as connection:
        index = RowIndex.build(connection)
        connection.execute(set_bundle(str(paths.path)))
        return index, ChunkFacts.build(connection)


@contextmanager
def _connect(paths: BundlePaths, catalog: str = "", *, limited: bool) -> Iterator[duckdb.DuckDBPyConnection]:
    """Connect to a catalog, or to an empty database.

    Args:
        paths: Paths of a staged version, beside which files for a short time are written.
        catalog: Catalog to read; none when empty.
        limited: Within a limit of memory, which some operators of large versions may exceed although others spill.

    Yields:
        The connection.
    """
    with (
        tempfile.TemporaryDirectory(prefix=f"{paths.path.name}.", dir=paths.path.parent) as folder,
        closing(duckdb.connect(catalog, read_only=bool(catalog))) as connection,
    ):
        connection.execute("SET threads = 1")
        for statement in limit_memory(folder, paths.table_bytes()) if limited else ():
            connection.execute(statement)
        yield connection
