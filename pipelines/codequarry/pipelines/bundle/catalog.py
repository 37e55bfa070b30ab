"""The DuckDB catalog of a version: views over its Parquet files and the tables that requests touch."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import closing

import duckdb

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.text_pages import write_text_pages
from codequarry.schemas.catalog.views import OPEN_SQL, build_statements, catalog_statements, limit_memory
from codequarry.serving.catalog.chunk_arrays import RowIndex
from codequarry.serving.catalog.explanation_facts import ChunkFacts
from codequarry.serving.files.integrity import file_sha256


def build_catalog(paths: BundlePaths, *dims: int, commented: bool = True) -> str:
    """Write ``catalog.duckdb`` beside the tables it reads, ``open.sql`` for people, and its ``rows/`` and ``facts/``.

    DuckDB puts a random identifier into every file, so the bytes of the catalog are not reproducible.

    Args:
        paths: Paths of the version.
        *dims: Dimension of the vectors of each dense index.
        commented: Say in the catalog what its tables, views and columns mean.

    Returns:
        Digest (sha256 hex) of what the catalog was made from: its SQL and the Parquet files.
    """
    paths.open_sql.write_text(OPEN_SQL, encoding="utf-8")
    statements = list(catalog_statements(str(paths.catalog), str(paths.path), *dims, commented=commented))
    try:
        index, facts = _build(paths, statements, limited=True)
    except duckdb.OutOfMemoryException:
        for file in paths.path.glob(f"{paths.catalog.name}*"):
            file.unlink()
        index, facts = _build(paths, statements, limited=False)
    index.write(paths.rows)
    write_text_pages(paths, index.chunks["shard"], index.chunks["text_bytes"])
    facts.write(paths.facts)
    digest = hashlib.sha256("\n".join(build_statements(*dims, commented=commented)).encode())
    for file in sorted([*paths.tables.glob("*.parquet"), paths.faiss_idmap]):
        digest.update(f"\n{file.name}:{file_sha256(file)}".encode())
    return digest.hexdigest()


def _build(paths: BundlePaths, statements: list[str], *, limited: bool) -> tuple[RowIndex, ChunkFacts]:
    """Build the catalog, and read it.

    Args:
        paths: Paths of a staged version, beside which files for a short time are written.
        statements: What makes the catalog.
        limited: Within a limit of memory, which some operators of large versions may exceed although others spill.

    Returns:
        What ``rows/`` and ``facts/`` hold.
    """
    with (
        tempfile.TemporaryDirectory(prefix=f"{paths.path.name}.", dir=paths.path.parent) as folder,
        closing(duckdb.connect()) as connection,
    ):
        connection.execute("SET threads = 1")
        for statement in limit_memory(folder, paths.table_bytes()) if limited else ():
            connection.execute(statement)
        connection.execute("SET parquet_metadata_cache = true")  # every table reads the same files
        for statement in statements:
            connection.execute(statement)
        return RowIndex.build(connection), ChunkFacts.build(connection)
