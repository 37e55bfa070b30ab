"""Writing of a shard's files: a unit of work, which other processes import quickly (`compute.work_units`)."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# Arrow ships no type stubs.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from codequarry.pipelines.indexes.bm25 import NewSegment, write_segments
from codequarry.pipelines.store.row_groups import arrays, row_groups, rows_among
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.tables import (
    CHUNKS,
    SCHEMAS,
    TableWriter,
    embeddings_schema,
    read_table,
    write_table,
    write_vectors,
)
from codequarry.schemas.errors import PublishError

_PLACE = ("repo", "path", "start_byte")
"""The order of chunks in their table and in the catalog."""


class PartRows(NamedTuple):
    """Rows of a part that belong to a shard."""

    folder: str
    """Folder of the part."""
    paths: list[str] | None
    """Paths of the files whose rows are wanted; None for all."""


class VectorFile(NamedTuple):
    """Vectors of a dense index."""

    table: str
    """Name of the table in the folder of a part."""
    target: str
    """Path of the shard's file in the version."""
    dim: int


class ShardTask(NamedTuple):
    """Files of a shard, and what they are made from."""

    version: str
    """Folder of the staged version."""
    number: int
    tables: dict[str, str]
    """Paths of the shard's files in the version, by name of the table."""
    vectors: list[VectorFile]
    sources: list[PartRows]

    @classmethod
    def of(cls, values: Sequence[Any]) -> ShardTask:
        """Return a task that went through JSON."""
        version, number, tables, vectors, sources = values
        return cls(
            version, number, tables, [VectorFile(*each) for each in vectors], [PartRows(*each) for each in sources]
        )

    def file(self, name: str) -> Path:
        """Return the shard's file of a table."""
        return Path(self.version, self.tables[name])


def write_shard(values: Sequence[Any]) -> tuple[int, tuple[NewSegment, ...]]:
    """Write a shard's files from the parts of the work folder.

    Args:
        values: A `ShardTask`, whose parts were compared with their completion markers; it may have gone through JSON.

    Returns:
        Number of its chunks, and its segments.

    Raises:
        PublishError: The parts do not fit together.
    """
    task = ShardTask.of(values)
    chunks = pa.concat_tables(_rows(task, "chunks")).sort_by("chunk_id")
    with ThreadPoolExecutor(1, thread_name_prefix="segments") as beside:
        # tantivy waits for the disk some twenty times.
        segments = beside.submit(write_segments, BundlePaths(Path(task.version)), chunks)
        _write_tables(task, chunks)
    return chunks.num_rows, segments.result()


def _write_tables(task: ShardTask, chunks: pa.Table) -> None:
    """Write the tables of a shard; its chunks come by id."""
    for name in ("ast_nodes", "ast_members", "cst_nodes"):
        with TableWriter(task.file(name), SCHEMAS[name]) as writer:
            for table in _rows(task, name):
                writer.write(table)
    placed = chunks.sort_by([(name, "ascending") for name in _PLACE])
    write_table(task.file("chunks"), placed, CHUNKS, paged="text")
    for file in task.vectors:
        ids, vectors = arrays(_embeddings(task, chunks, file), file.dim)
        write_vectors(Path(task.version, file.target), ids, vectors)


def _rows(task: ShardTask, name: str) -> Iterator[pa.Table]:
    """Yield the shard's rows of a table of the work folder."""
    for folder, paths in task.sources:
        for table in row_groups(Path(folder, f"{name}.parquet")):
            yield table if paths is None else rows_among(table, "path", pa.array(paths, pa.string()))


def _embeddings(task: ShardTask, chunks: pa.Table, file: VectorFile) -> pa.Table:
    """Return the vectors of the shard's chunks, in their order."""
    found = pa.concat_tables(read_table(Path(source.folder, f"{file.table}.parquet")) for source in task.sources)
    found = rows_among(found, "chunk_id", chunks["chunk_id"].combine_chunks()).sort_by("chunk_id")
    if not found["chunk_id"].equals(chunks["chunk_id"]):
        raise PublishError(
            f"chunks and embeddings of shard {task.number} do not hold the same ids",
            suggestion="run the embedding stage after the chunk stage",
        )
    return found.cast(embeddings_schema(file.dim)).combine_chunks()
