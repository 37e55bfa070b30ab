"""Files of a version that depend on a few source files only: linked when they are known, or written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from codequarry.pipelines.embed.stage import embedded_seal, embedding_key
from codequarry.pipelines.indexes.bm25 import write_segments
from codequarry.pipelines.indexes.faiss import arrays
from codequarry.pipelines.store.links import link_all
from codequarry.pipelines.store.parts import CHUNKED, Part, Shard, row_groups, rows_among, sealed
from codequarry.schemas.bundle.layout import BundlePaths, embeddings_table
from codequarry.schemas.bundle.manifest import FileEntry, LegEntry, Manifest, ShardEntry
from codequarry.schemas.bundle.shards import OWN_TABLES
from codequarry.schemas.bundle.tables import (
    CHUNKS,
    SCHEMAS,
    TableWriter,
    embeddings_schema,
    read_table,
    write_table,
    write_vectors,
)
from codequarry.schemas.errors import PublishError, SourceError

_PLACE = ("repo", "path", "start_byte")
"""The order of chunks in their table and in the catalog."""


def link_shard(
    shard: Shard, base: BundlePaths, held: Manifest, staged: BundlePaths
) -> tuple[ShardEntry, list[FileEntry]] | None:
    """Put a shard that a published version holds into a staged one, as links.

    Args:
        shard: Shard of the staged version.
        base: Paths of the published version.
        held: Its manifest.
        staged: Paths of the staged version.

    Returns:
        Entries of the shard and of its files. None, with nothing left behind, when the published version has another
        shard, a file of it is damaged, or no link can be made.
    """
    known = next((entry for entry in held.shards if entry.key == shard.key), None)
    if known is None:
        return None
    files = _files(shard, known, held)
    return (known, files) if link_all(base, staged, files) else None


def _files(shard: Shard, known: ShardEntry, held: Manifest) -> list[FileEntry]:
    """Return the files of a shard in a version's manifest."""
    names = {shard.table(name) for name in OWN_TABLES}
    names.update(shard.vectors(leg) for leg in held.legs)
    segments = {f"bm25/{segment.id}" for segment in known.segments}
    return [entry for entry in held.files if entry.path in names or entry.path.rpartition(".")[0] in segments]


def write_shard(shard: Shard, staged: BundlePaths, legs: Sequence[LegEntry]) -> ShardEntry:
    """Write a shard's files from the parts of the work folder.

    Args:
        shard: The shard.
        staged: Paths of the staged version.
        legs: Its dense indexes.

    Returns:
        Entry of the shard.

    Raises:
        SourceError: A stage of a repository has not run, or its files were changed since.
    """
    for part, _ in shard.sources:
        _require(part, CHUNKED, part.key, "chunk")
    for name in ("ast_nodes", "cst_nodes"):
        with TableWriter(staged.path / shard.table(name), SCHEMAS[name]) as writer:
            for table in _rows(shard, name):
                writer.write(table)
    chunks = pa.concat_tables(_rows(shard, "chunks")).sort_by([(name, "ascending") for name in _PLACE])
    write_table(staged.path / shard.table("chunks"), chunks, CHUNKS, paged="text")
    chunks = chunks.sort_by("chunk_id")
    for leg in legs:
        ids, vectors = arrays(_embeddings(shard, chunks, leg), leg.encoder.dim)
        write_vectors(staged.path / shard.vectors(leg), ids, vectors)
    return ShardEntry(
        number=shard.number,
        key=shard.key,
        files=sum(len(paths) for _, paths in shard.sources),
        chunks=chunks.num_rows,
        segments=write_segments(staged, chunks),
    )


def _rows(shard: Shard, name: str) -> Iterator[pa.Table]:
    """Yield the shard's rows of a table of the work folder."""
    for part, paths in shard.sources:
        wanted = pa.array(sorted(paths), pa.string())
        for table in row_groups(part.table(name)):
            yield table if len(paths) == len(part.files) else rows_among(table, "path", wanted)


def _embeddings(shard: Shard, chunks: pa.Table, leg: LegEntry) -> pa.Table:
    """Return the vectors of the shard's chunks, in their order."""
    tables: list[pa.Table] = []
    for part, _ in shard.sources:
        _require(part, embedded_seal(leg.channel), embedding_key(part, leg.encoder.fingerprint), "embedding")
        tables.append(read_table(part.table(embeddings_table(leg.channel))))
    found = pa.concat_tables(tables)
    found = rows_among(found, "chunk_id", chunks["chunk_id"].combine_chunks()).sort_by("chunk_id")
    if not found["chunk_id"].equals(chunks["chunk_id"]):
        raise PublishError(
            f"chunks and embeddings of shard {shard.number} do not hold the same ids",
            suggestion="run the embedding stage after the chunk stage",
        )
    return found.cast(embeddings_schema(leg.encoder.dim)).combine_chunks()


def _require(part: Part, seal: str, key: str, stage: str) -> None:
    if sealed(part.folder, seal, key) is None:
        name = part.work.path.name
        raise SourceError(
            f"{name}: part {part.number} of what the {stage} stage wrote is missing, damaged, or of another state",
            suggestion=f"run the {stage} stage of {name} again",
        )
