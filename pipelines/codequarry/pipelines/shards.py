"""The files of a version that follow from a few source files alone: linked to where they are known, or written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from codequarry.pipelines.bm25_index import write_segments
from codequarry.pipelines.embeddings import embedded_seal, embedding_key
from codequarry.pipelines.faiss_index import write_faiss
from codequarry.pipelines.hard_links import link_all
from codequarry.pipelines.parts import CHUNKED, FALLEN, Part, hashed, sealed
from codequarry.pipelines.table_rows import row_groups, rows_among
from codequarry.pipelines.tools import tool_versions
from codequarry.schemas.errors import PublishError, SourceError
from codequarry.schemas.layout import BundlePaths, embeddings_table
from codequarry.schemas.manifest import FileEntry, LegEntry, Manifest, ShardEntry
from codequarry.schemas.settings import Settings
from codequarry.schemas.shards import OWN_TABLES, shard_count, shard_file, shard_of
from codequarry.schemas.tables import CHUNKS, SCHEMAS, TableWriter, embeddings_schema, read_table, write_table

_PLACE = ("repo", "path", "start_byte")
"""The order of chunks in their table, in the catalog, and of their texts."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Some files of all repositories, and where their rows are."""

    number: int
    count: int
    key: str
    sources: tuple[tuple[Part, frozenset[str]], ...]
    """Parts, and which of their paths belong here."""

    def table(self, name: str) -> str:
        """Path of a table's file in a version."""
        return f"tables/{shard_file(name, 'parquet', self.number, self.count)}"

    @property
    def texts(self) -> str:
        """Path of the file of its chunks' texts in a version."""
        return shard_file("texts", "bin", self.number, self.count)

    def faiss(self, leg: LegEntry) -> str:
        """Path of its exact index of a leg's vectors in a version."""
        return shard_file(leg.channel, "index", self.number, self.count)

    def vectors(self, leg: LegEntry) -> str:
        """Path of its table of a leg's vectors in a version."""
        return self.table(embeddings_table(leg.channel))


def plan_shards(parts: Sequence[Part], size_bytes: int, legs: Sequence[LegEntry], settings: Settings) -> list[Shard]:
    """The shards of a bundle, by number; those without a file are left out.

    parts: of all repositories. size_bytes: of all their indexed files. legs: the dense ones.

    Raises SourceError: the chunk stage of a repository has not run.
    """
    count = shard_count(size_bytes)
    sources: dict[int, list[tuple[Part, frozenset[str]]]] = {}
    files: dict[int, list[object]] = {}
    for part in parts:
        repo = part.work.path.name
        own: dict[int, list[str]] = {}
        fallen = part.chunked()["facts"][FALLEN]
        for file in part.files:
            number = shard_of(repo, file.path, count)
            own.setdefault(number, []).append(file.path)
            files.setdefault(number, []).append([repo, *file, file.path in fallen])
        for number, paths in own.items():
            sources.setdefault(number, []).append((part, frozenset(paths)))
    # An approximate index is no file of a shard, and its factory string follows from how many chunks there are in all.
    dense = [(leg.channel, leg.encoder.fingerprint, leg.faiss.factory if leg.faiss.exact else "") for leg in legs]
    deciding = [count, tool_versions(), settings.index_hash(), dense]
    return [
        Shard(number, count, hashed([number, *deciding, files[number]]), tuple(sources[number]))
        for number in sorted(sources)
    ]


def link_shard(
    shard: Shard, base: BundlePaths, held: Manifest, staged: BundlePaths
) -> tuple[ShardEntry, list[FileEntry]] | None:
    """Put a shard that a published version holds into a staged one, as links.

    Returns its entry and those of its files; None, and leaves nothing behind: that version has another shard, a file of
    it is damaged, or no link can be made.
    """
    known = next((entry for entry in held.shards if entry.key == shard.key), None)
    if known is None:
        return None
    files = _files(shard, known, held)
    return (known, files) if link_all(base, staged, files) else None


def _files(shard: Shard, known: ShardEntry, held: Manifest) -> list[FileEntry]:
    """The files of a shard in a version's manifest."""
    names = {shard.texts, *(shard.table(name) for name in OWN_TABLES)}
    names.update(shard.vectors(leg) for leg in held.legs)
    names.update(shard.faiss(leg) for leg in held.legs if leg.faiss.exact)
    segments = {f"bm25/{segment.id}" for segment in known.segments}
    return [entry for entry in held.files if entry.path in names or entry.path.rpartition(".")[0] in segments]


def write_shard(shard: Shard, staged: BundlePaths, legs: Sequence[LegEntry]) -> ShardEntry:
    """Write a shard's files from the parts of the work folder. legs: the dense ones.

    Raises SourceError: a stage of a repository has not run, or its files were changed since.
    """
    for part, _ in shard.sources:
        _require(part, CHUNKED, part.key, "chunk")
    for name in ("ast_nodes", "cst_nodes"):
        with TableWriter(staged.path / shard.table(name), SCHEMAS[name]) as writer:
            for table in _rows(shard, name):
                writer.write(table)
    chunks = pa.concat_tables(_rows(shard, "chunks")).sort_by([(name, "ascending") for name in _PLACE])
    write_table(staged.path / shard.table("chunks"), chunks, CHUNKS)
    write_texts(staged.path / shard.texts, chunks)
    chunks = chunks.sort_by("chunk_id")
    for leg in legs:
        embeddings = _embeddings(shard, chunks, leg)
        write_table(staged.path / shard.vectors(leg), embeddings, embeddings_schema(leg.encoder.dim))
        if leg.faiss.exact:
            ids, vectors = arrays(embeddings, leg.encoder.dim)
            write_faiss(staged.path / shard.faiss(leg), ids, vectors, leg.faiss.factory)
    return ShardEntry(
        number=shard.number,
        key=shard.key,
        files=sum(len(paths) for _, paths in shard.sources),
        chunks=chunks.num_rows,
        segments=write_segments(staged, chunks),
    )


def arrays(embeddings: pa.Table, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids (n,) int64 and vectors (n, d) float32 of a table."""
    vectors = embeddings["vector"].combine_chunks().flatten().to_numpy().reshape(-1, dim)
    return embeddings["chunk_id"].to_numpy(), vectors


def write_texts(file: Path, chunks: pa.Table) -> None:
    """The texts of chunks, one behind the other in the order of the table, in UTF-8."""
    with file.open("wb") as stream:
        for text in chunks["text"]:
            stream.write(text.as_py().encode())


def _rows(shard: Shard, name: str) -> Iterator[pa.Table]:
    """The shard's rows of a table of the work folder."""
    for part, paths in shard.sources:
        wanted = pa.array(sorted(paths), pa.string())
        for table in row_groups(part.table(name)):
            yield table if len(paths) == len(part.files) else rows_among(table, "path", wanted)


def _embeddings(shard: Shard, chunks: pa.Table, leg: LegEntry) -> pa.Table:
    """The rows of the shard's chunks, in their order."""
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
    return found.combine_chunks()


def _require(part: Part, seal: str, key: str, stage: str) -> None:
    if sealed(part.folder, seal, key) is None:
        name = part.work.path.name
        raise SourceError(
            f"{name}: part {part.number} of what the {stage} stage wrote is missing, damaged, or of another state",
            suggestion=f"run the {stage} stage of {name} again",
        )
