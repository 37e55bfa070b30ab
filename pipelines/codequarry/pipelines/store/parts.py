"""Parts of the work folder, shards of a bundle, and their rows.

A part is one of 1 to 32 groups of a repository's files, with the rows computed from it alone. A complete part has a
completion marker: a record beside its files that names what they were made from and their sha256. A stage recomputes a
part only when that differs, so that a commit costs only the parts of its files.

Once a version is published, what can be made again from the store goes: `release_rows`. The completion markers stay.
Such a part is made again where a shard that CURRENT does not have needs its rows, and gets the same bytes.

A shard takes some files of all repositories from their parts. Its key is a hash of its contents.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from codequarry.pipelines.store.library_versions import tool_versions
from codequarry.pipelines.store.syntax import chunker_fingerprint
from codequarry.pipelines.store.workspace import RepositoryWork, write_json
from codequarry.schemas.bundle.layout import DENSE_LEGS, embeddings_table
from codequarry.schemas.bundle.manifest import LegEntry
from codequarry.schemas.bundle.shards import shard_count, shard_file, shard_of
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.errors import SourceError
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.integrity import file_sha256

CHUNKED = "chunked"
"""Completion marker of the chunk stage."""
EMBEDDED = "embedded"
"""Completion marker of the embedding stage; further indexes have one of their own."""
FALLEN = "fallen"
"""Fact of the chunk stage: paths of the files on which a worker crashed; the next run tries them again."""
MENTIONS = "ast_mentions"
"""Table of all identifiers of a part, of which ``ast_references`` keeps those that the repository defines."""
MODULE_FACTS = "module_facts"
"""Table of the chunk stage with one row of module facts per source file."""
_VECTORS = tuple(embeddings_table(channel) for channel in DENSE_LEGS)
RELEASED = frozenset(f"{name}.parquet" for name in ("chunks", "cst_nodes", *_VECTORS))
"""Files of a part that may be gone after a publish."""


class IndexedFile(NamedTuple):
    """A file that the census takes in."""

    path: str
    lang: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Part:
    """Some files of a repository."""

    work: RepositoryWork
    number: int
    files: tuple[IndexedFile, ...]
    """Files by path."""
    key: str
    """Hash of everything that decides what the chunk stage writes for it."""

    @property
    def folder(self) -> Path:
        return self.work.parts / f"{self.number:02}"

    def table(self, name: str) -> Path:
        """Return the file of a table's rows."""
        return self.folder / f"{name}.parquet"

    def chunked(self) -> dict[str, Any]:
        """Return the record of the chunk stage, whatever happened to the files since.

        Returns:
            The record: its key, the sha256 of its files, and facts.

        Raises:
            SourceError: The stage has not run since the snapshot or the settings changed.
        """
        record = _record(self.folder, CHUNKED)
        if record is None or record["key"] != self.key:
            raise SourceError(
                f"{self.work.path.name}: part {self.number} of its chunks is missing, or of another state",
                suggestion=f"run the chunk stage of {self.work.path.name} first",
            )
        return record

    def chunk_count(self) -> int:
        """Return the number of its chunks; raises as `chunked` does."""
        return sum(counts["chunks"] for counts in self.chunked()["facts"]["languages"].values())


def plan_parts(work: RepositoryWork, settings: Settings) -> list[Part]:
    """Return the parts of the snapshot in a work folder, by number; parts without a file are left out.

    Args:
        work: Work folder of the repository.
        settings: Settings, whose chunking decides the keys.

    Returns:
        Parts by ascending number.

    Raises:
        SourceError: The snapshot stage has not run.
    """
    columns = ["path", "lang", "sha256", "size_bytes", "skip_reason"]
    census = read_table(work.require(work.census, "snapshot"), columns)
    rows = list(zip(*(column.to_pylist() for column in census.columns), strict=True))
    count = shard_count(sum(size for *_, size, reason in rows if not reason))
    files: dict[int, list[IndexedFile]] = defaultdict(list)
    for path, lang, sha256, _, reason in rows:
        if not reason:
            files[shard_of(work.path.name, path, count)].append(IndexedFile(path, lang, sha256))
    deciding = [work.path.name, count, chunker_fingerprint(settings.chunking)]
    return [
        Part(work, number, tuple(sorted(files[number])), hashed([*deciding, sorted(files[number])]))
        for number in sorted(files)
    ]


def unfinished_share(work: RepositoryWork, settings: Settings) -> float:
    """Return the share of a repository's files in parts that the chunk stage has to make, by their keys alone.

    Args:
        work: Work folder of the repository.
        settings: Settings, whose chunking decides the keys.

    Returns:
        0 for a repository as it was in the last run, and 1 for a new one.

    Raises:
        SourceError: The snapshot stage has not run.
    """
    parts = plan_parts(work, settings)
    keys = ((part, _record(part.folder, CHUNKED)) for part in parts)
    new = sum(len(part.files) for part, record in keys if record is None or record["key"] != part.key)
    return new / max(1, sum(len(part.files) for part in parts))


def release_rows(work: RepositoryWork, *, keep_chunks: bool) -> None:
    """Remove what the next run does not need and can make again.

    Args:
        work: Work folder of a repository whose rows are published.
        keep_chunks: Keep the chunks: their texts are the keys of what the store must not lose.
    """
    for file in (work.contents, work.table("ast_references")):
        file.unlink(missing_ok=True)
    names = RELEASED - ({"chunks.parquet"} if keep_chunks else set())
    for folder in work.parts.glob("*"):  # there is none where the work folder was removed
        for name in names:
            (folder / name).unlink(missing_ok=True)


def forget_parts(work: RepositoryWork, parts: Sequence[Part]) -> None:
    """Remove the folders of parts that no longer exist."""
    kept = {part.folder for part in parts}
    for folder in work.parts.glob("*"):  # there is none where the work folder was removed
        if folder not in kept:
            shutil.rmtree(folder, ignore_errors=True)


def hashed(parts: Sequence[object]) -> str:
    """Return the sha256, as hex, of values that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()


def sealed(folder: Path, seal: str, key: str, *, may_lack: Collection[str] = ()) -> dict[str, Any] | None:
    """Return the record of a completion marker with this key and undamaged files; None when the work has to be done.

    Args:
        folder: Folder of the part.
        seal: Name of the marker.
        key: Hash of what the files are made from.
        may_lack: Names of files that may be gone.

    Returns:
        The record, or None.
    """
    record = _record(folder, seal)
    if record is None or record["key"] != key:
        return None
    needed = {name: sha for name, sha in record["files"].items() if name not in may_lack or (folder / name).exists()}
    try:
        whole = all(file_sha256(folder / name) == sha256 for name, sha256 in needed.items())
    except OSError:
        return None
    return record if whole else None


def put_seal(folder: Path, seal: str, key: str, names: Sequence[str], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Write the completion marker of a folder's files; call it last.

    Args:
        folder: Folder of the part.
        seal: Name of the marker.
        key: Hash of what the files were made from.
        names: Names of the files.
        facts: Further facts about the files, as JSON.

    Returns:
        The record that was written.
    """
    record = {"key": key, "files": {name: file_sha256(folder / name) for name in names}, "facts": dict(facts)}
    write_json(_seal_file(folder, seal), record)
    return record


def break_seal(folder: Path, seal: str) -> None:
    """Remove a completion marker, because its files are about to change."""
    _seal_file(folder, seal).unlink(missing_ok=True)


def _seal_file(folder: Path, seal: str) -> Path:
    return folder / f"{seal}.json"


def _record(folder: Path, seal: str) -> dict[str, Any] | None:
    try:
        record = json.loads(_seal_file(folder, seal).read_bytes())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and {"key", "files", "facts"} <= record.keys() else None


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
