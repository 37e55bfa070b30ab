"""The DuckDB catalog of a version: views over its Parquet files and the tables that requests touch."""

from __future__ import annotations

import hashlib
from contextlib import closing

import duckdb

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.text_pages import write_text_pages
from codequarry.schemas.catalog.views import OPEN_SQL, build_statements, create_statements, set_bundle
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
    statements = build_statements(*dims)
    with closing(duckdb.connect()) as connection:
        connection.execute("SET threads = 1")
        connection.execute("SET parquet_metadata_cache = true")  # every table reads the same files
        for statement in (*create_statements(str(paths.catalog)), set_bundle(str(paths.path)), *statements):
            connection.execute(statement)
        connection.execute("CHECKPOINT")
    digest = hashlib.sha256("\n".join(statements).encode())
    for file in sorted([*paths.tables.glob("*.parquet"), paths.faiss_idmap]):
        digest.update(f"\n{file.name}:{file_sha256(file)}".encode())
    return digest.hexdigest()


def write_row_index(paths: BundlePaths) -> None:
    """Write ``rows/`` and ``facts/`` of the catalog beside it."""
    with closing(duckdb.connect(str(paths.catalog), read_only=True)) as connection:
        index = RowIndex.build(connection)
        index.write(paths.rows)
        write_text_pages(paths, index.chunks["shard"], index.chunks["text_bytes"])
        connection.execute(set_bundle(str(paths.path)))
        ChunkFacts.build(connection).write(paths.facts)
