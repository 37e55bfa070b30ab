"""The work folder's parts: a repository's files in 1 to 32 groups, each with the rows that follow from it alone.

A part is sealed when its files are complete: a record beside them names what they were made from and their sha256. A
stage does a part again only when that differs, so that a commit costs the parts of its files.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from codequarry.pipelines.syntax_store import chunker_fingerprint
from codequarry.pipelines.workspace import RepositoryWork, write_json
from codequarry.schemas.errors import SourceError
from codequarry.schemas.integrity import file_sha256
from codequarry.schemas.settings import Settings
from codequarry.schemas.shards import shard_count, shard_of
from codequarry.schemas.tables import read_table

CHUNKED = "chunked"
"""Seal of the chunk stage."""
EMBEDDED = "embedded"
"""Seal of the embedding stage; further legs have one of their own."""
FALLEN = "fallen"
"""Fact of the chunk stage: paths of the files over which a worker died, which are tried again by the next run."""
MENTIONS = "ast_mentions"
"""Table of all identifiers of a part, of which ``ast_references`` keeps those that the repository defines."""
MODULE_FACTS = "module_facts"
"""Table of what the chunk stage learnt of every source file as a module."""


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
    """By path."""
    key: str
    """Hash of everything that decides what the chunk stage writes for it."""

    @property
    def folder(self) -> Path:
        return self.work.parts / f"{self.number:02}"

    def table(self, name: str) -> Path:
        """File of a table's rows."""
        return self.folder / f"{name}.parquet"

    def chunked(self) -> dict[str, Any]:
        """The record of the chunk stage, whatever happened to the files since.

        Raises SourceError: it has not run since the snapshot or the settings changed.
        """
        record = _record(self.folder, CHUNKED)
        if record is None or record["key"] != self.key:
            raise SourceError(
                f"{self.work.path.name}: part {self.number} of its chunks is missing, or of another state",
                suggestion=f"run the chunk stage of {self.work.path.name} first",
            )
        return record


def plan_parts(work: RepositoryWork, settings: Settings) -> list[Part]:
    """The parts of the snapshot in a work folder, by number; parts without a file are left out.

    Raises SourceError: the snapshot stage has not run.
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


def forget_parts(work: RepositoryWork, parts: Sequence[Part]) -> None:
    """Remove the folders of parts that are no longer there."""
    kept = {part.folder for part in parts}
    for folder in work.parts.iterdir():
        if folder not in kept:
            shutil.rmtree(folder, ignore_errors=True)


def hashed(parts: Sequence[object]) -> str:
    """sha256 hex of values that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()


def sealed(folder: Path, seal: str, key: str) -> dict[str, Any] | None:
    """The record of a seal whose key and files are these and whole; None when the work has to be done."""
    record = _record(folder, seal)
    if record is None or record["key"] != key:
        return None
    try:
        whole = all(file_sha256(folder / name) == sha256 for name, sha256 in record["files"].items())
    except OSError:
        return None
    return record if whole else None


def put_seal(folder: Path, seal: str, key: str, names: Sequence[str], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Seal files of a folder; the last thing to be written. Returns the record.

    facts: what else is known of them, as JSON.
    """
    record = {"key": key, "files": {name: file_sha256(folder / name) for name in names}, "facts": dict(facts)}
    write_json(_seal_file(folder, seal), record)
    return record


def break_seal(folder: Path, seal: str) -> None:
    """Say that the files are about to change."""
    _seal_file(folder, seal).unlink(missing_ok=True)


def _seal_file(folder: Path, seal: str) -> Path:
    return folder / f"{seal}.json"


def _record(folder: Path, seal: str) -> dict[str, Any] | None:
    try:
        record = json.loads(_seal_file(folder, seal).read_bytes())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and {"key", "files", "facts"} <= record.keys() else None
