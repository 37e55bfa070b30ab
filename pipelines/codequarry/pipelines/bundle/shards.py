"""Files of a version that depend on a few source files only: linked when they are known, or made by a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from codequarry.pipelines.bundle.shard_files import PartRows, ShardTask, VectorFile
from codequarry.pipelines.embed.stage import embedded_seal, embedding_key
from codequarry.pipelines.store.links import link_all
from codequarry.pipelines.store.parts import CHUNKED, Part, Shard, sealed
from codequarry.schemas.bundle.layout import BundlePaths, embeddings_table
from codequarry.schemas.bundle.manifest import FileEntry, LegEntry, Manifest, SegmentEntry, ShardEntry
from codequarry.schemas.bundle.shards import OWN_TABLES
from codequarry.schemas.errors import SourceError


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


def shard_task(shard: Shard, staged: BundlePaths, legs: Sequence[LegEntry]) -> ShardTask:
    """Return the task that writes a shard, after comparing its parts with their completion markers.

    Args:
        shard: The shard.
        staged: Paths of the staged version.
        legs: Its dense indexes.

    Returns:
        The task.

    Raises:
        SourceError: A stage of a repository has not run, or its files were changed since.
    """
    for part, _ in shard.sources:
        _require(part, CHUNKED, part.key, "chunk")
        for leg in legs:
            _require(part, embedded_seal(leg.channel), embedding_key(part, leg.encoder.fingerprint), "embedding")
    return ShardTask(
        str(staged.path),
        shard.number,
        {name: shard.table(name) for name in OWN_TABLES},
        [VectorFile(embeddings_table(leg.channel), shard.vectors(leg), leg.encoder.dim) for leg in legs],
        [
            PartRows(str(part.folder), None if len(paths) == len(part.files) else sorted(paths))
            for part, paths in shard.sources
        ],
    )


def shard_entry(shard: Shard, chunks: int, segments: Sequence[Sequence[Any]]) -> ShardEntry:
    """Return the manifest's entry of a shard that is written.

    Args:
        shard: The shard.
        chunks: Number of its chunks.
        segments: Id and number of documents of each of its segments.

    Returns:
        The entry.
    """
    return ShardEntry(
        number=shard.number,
        key=shard.key,
        files=sum(len(paths) for _, paths in shard.sources),
        chunks=chunks,
        segments=tuple(SegmentEntry(id=segment, documents=documents) for segment, documents in segments),
    )


def _require(part: Part, seal: str, key: str, stage: str) -> None:
    if sealed(part.folder, seal, key) is None:
        name = part.work.path.name
        raise SourceError(
            f"{name}: part {part.number} of what the {stage} stage wrote is missing, damaged, or of another state",
            suggestion=f"run the {stage} stage of {name} again",
        )
