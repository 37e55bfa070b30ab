"""Shards: the source files in each one, and the key of its contents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codequarry.pipelines.store.library_versions import tool_versions
from codequarry.pipelines.store.parts import FALLEN, Part, hashed
from codequarry.schemas.bundle.layout import embeddings_table
from codequarry.schemas.bundle.manifest import LegEntry
from codequarry.schemas.bundle.shards import shard_count, shard_file, shard_of
from codequarry.schemas.settings.load import Settings


@dataclass(frozen=True, slots=True)
class Shard:
    """Some files of all repositories, and the paths of their rows."""

    number: int
    count: int
    key: str
    sources: tuple[tuple[Part, frozenset[str]], ...]
    """Parts, and those of their paths that belong to this shard."""

    def table(self, name: str) -> str:
        """Return the path of a table's file in a version."""
        return f"tables/{shard_file(name, 'parquet', self.number, self.count)}"

    @property
    def texts(self) -> str:
        """Path of the file with the shard's chunk texts in a version."""
        return shard_file("texts", "bin", self.number, self.count)

    def faiss(self, leg: LegEntry) -> str:
        """Return the path of the shard's exact dense index in a version."""
        return shard_file(leg.channel, "index", self.number, self.count)

    def vectors(self, leg: LegEntry) -> str:
        """Return the path of the shard's table of a dense index's vectors in a version."""
        return self.table(embeddings_table(leg.channel))


def plan_shards(parts: Sequence[Part], size_bytes: int, legs: Sequence[LegEntry], settings: Settings) -> list[Shard]:
    """Return the shards of a bundle, by number; those without a file are left out.

    Args:
        parts: Parts of all repositories.
        size_bytes: Size of all their indexed files.
        legs: Dense indexes.
        settings: Settings, which decide the keys.

    Returns:
        Shards by ascending number.

    Raises:
        SourceError: The chunk stage of a repository has not run.
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
    # An approximate index is not a file of a shard, and its factory string follows from the number of all chunks.
    dense = [(leg.channel, leg.encoder.fingerprint, leg.faiss.factory if leg.faiss.exact else "") for leg in legs]
    deciding = [count, tool_versions(), settings.index_hash(), dense]
    return [
        Shard(number, count, hashed([number, *deciding, files[number]]), tuple(sources[number]))
        for number in sorted(sources)
    ]
