"""Stage 1: take the census of a source, and copy the files to index without their secrets.

Later stages read the copy, so that a file edited during a run cannot tear its chunks, and no secret is in what they
read.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from codequarry.pipelines.secrets.redaction import Redactor, Secret, open_redactor
from codequarry.pipelines.sources.census import CensusFile, take_census
from codequarry.pipelines.sources.sources import Source, open_source
from codequarry.pipelines.sources.stamps import Stamp, is_settled, write_stamps
from codequarry.pipelines.store.workspace import (
    Progress,
    RepositoryWork,
    replacing,
    repository_work,
    silent,
    write_json,
)
from codequarry.schemas.bundle.tables import FILES, write_table
from codequarry.schemas.errors import SourceError
from codequarry.schemas.git_urls import parse_git_url
from codequarry.schemas.resources import trim_memory
from codequarry.schemas.settings.load import RepositorySettings, Settings

_CONTENTS = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("lang", pa.string(), nullable=False),
        pa.field("content", pa.large_binary(), nullable=False),
    ]
)
_BATCH_BYTES = 4 << 20
_READ_FILES = 32
_MOST_DIFFERING = 10_000


class FileIdentity(NamedTuple):
    """Identity of a path's contents, as the census has it."""

    sha256: str
    encoding: str
    skip_reason: str
    """Reason for skipping it; "" when it is indexed."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of a repository when it was read."""

    name: str
    commit: str
    """Commit id; "" for a plain directory."""
    dirty: bool
    """True when the indexed files differ from the commit, or there is none."""
    tree_sha256: str
    files: int
    size_bytes: int
    classes: dict[str, int]
    """Indexed files by path class."""
    skipped: dict[str, int]
    """Skipped files by reason."""
    url: str
    """URL it was fetched from, without credentials; "" for a local path."""
    ref: str
    """Branch, tag or commit that was asked for; "" for none."""
    unborn: bool = False
    """True for a git work tree without commits yet."""
    secrets: dict[str, int] | None = None
    """Number of secrets that were replaced by asterisks, by kind; None without a scan."""
    secret_places: list[str] = field(default_factory=list[str])
    """Places of the secrets, as ``path:line kind``, lines counted from 1."""
    differing: list[str] | None = None
    """Paths that differed from the commit, or may have; None when that is unknown, or there were too many."""


def snapshot_repository(repository: RepositorySettings, settings: Settings, progress: Progress = silent) -> Snapshot:
    """Take the census of a repository and copy what is indexed into the work folder.

    Writes ``census.parquet``, ``contents.parquet``, ``snapshot.json`` and, without git, ``stamps.parquet``. Memory is
    bounded by one batch of files.

    Args:
        repository: Repository with its name.
        settings: Settings of the run.
        progress: Called with (task, files done, files in all).

    Returns:
        The snapshot that was written.

    Raises:
        SourceError: The source cannot be listed, or none of its files can be indexed.
    """
    return snapshot_source(repository, open_source(repository, settings), settings, progress)


def snapshot_source(
    repository: RepositorySettings,
    source: Source,
    settings: Settings,
    progress: Progress = silent,
    known: Mapping[str, FileIdentity] | None = None,
) -> Snapshot:
    """Take the census of a listed source and copy what is indexed into the work folder, as `snapshot_repository` does.

    Args:
        repository: Repository with its name.
        source: Its listing, or some paths of it.
        settings: Settings of the run.
        progress: Called with (task, files done, files in all).
        known: Identities by path of files that need not be read again: those that still have them are left out, and
            nothing may be left. None for a census of which something must be indexed.

    Returns:
        The snapshot that was written.

    Raises:
        SourceError: None of the files can be indexed.
    """
    work = repository_work(settings.paths.work, repository.name)
    stamps: dict[str, Stamp] = {}
    began_ns = time.time_ns()
    rows: list[CensusFile] = []
    tree = hashlib.sha256()
    places: list[str] = []
    kinds: Counter[str] = Counter()
    differing: list[str] = []
    dirty = not source.commit

    def changed(census: Iterator[CensusFile]) -> Iterator[CensusFile]:
        """Yield the files that are not known as they are, and note those that differ from the commit."""
        nonlocal dirty
        for entry in census:
            dirty = dirty or entry.differs_from_head
            if (entry.differs_from_head or entry.may_differ) and len(differing) <= _MOST_DIFFERING:
                differing.append(entry.path)
            if known is None and entry.stamp is not None and is_settled(entry.stamp, began_ns):
                stamps[entry.path] = entry.stamp
            if known is None or known.get(entry.path) != identity_of(entry):
                yield entry

    def entries(redactor: Redactor) -> Iterator[CensusFile]:
        census = take_census(
            source, settings.sources, lambda done, total: progress(f"{repository.name}: reading", done, total)
        )
        for entry, secrets in _redacted(changed(census), redactor):
            if known is not None and known.get(entry.path) == identity_of(entry):
                continue
            rows.append(replace(entry, content=b""))
            kinds.update(secret.kind for secret in secrets)
            places.extend(f"{entry.path}:{secret.line + 1} {secret.kind}" for secret in secrets)
            if entry.skip_reason is None:
                tree.update(f"{entry.path}\0{entry.sha256}\n".encode())
                yield entry

    with open_redactor(settings) as redactor, replacing(work.contents) as temporary:
        work.stamps.unlink(missing_ok=True)  # written last: stamps are never newer than their census
        _write_contents(temporary, entries(redactor))
        skipped = Counter(row.skip_reason for row in rows if row.skip_reason is not None)
        indexed = [row for row in rows if row.skip_reason is None]
        if not indexed and known is None:  # the contents of before stay, as the whole snapshot does
            reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(skipped.items())) or "it is empty"
            raise SourceError(
                f"{repository.name}: no file of {repository.place} can be indexed ({reasons})",
                suggestion="check the path, .gitignore and [sources] exclude",
            )
    with replacing(work.census) as temporary:
        write_table(temporary, _census_table(repository.name, rows), FILES)
    snapshot = Snapshot(
        name=repository.name,
        commit=source.commit,
        dirty=dirty,
        tree_sha256=tree.hexdigest(),
        files=len(indexed),
        size_bytes=sum(row.size_bytes for row in indexed),
        classes=dict(sorted(Counter(row.path_class for row in indexed).items())),
        skipped=dict(sorted(skipped.items())),
        url=parse_git_url(repository.url).public if repository.url else "",
        ref=repository.ref,
        unborn=source.unborn,
        secrets=dict(sorted(kinds.items())) if settings.secrets.scan else None,
        secret_places=places,
        differing=differing if len(differing) <= _MOST_DIFFERING else None,
    )
    write_json(work.snapshot, asdict(snapshot))
    if stamps:
        with replacing(work.stamps) as temporary:
            write_stamps(temporary, stamps)
    trim_memory()
    return snapshot


def identity_of(entry: CensusFile) -> FileIdentity:
    """Return the identity of a path's contents."""
    return FileIdentity(entry.sha256, entry.encoding, entry.skip_reason or "")


def _redacted(census: Iterator[CensusFile], redactor: Redactor) -> Iterator[tuple[CensusFile, tuple[Secret, ...]]]:
    """Yield each file as it is indexed, and the secrets that were removed from it; a few files in memory at a time."""
    while batch := list(islice(census, _READ_FILES)):
        indexed = [entry for entry in batch if entry.skip_reason is None]
        answers = iter(redactor.redact([(entry.path, entry.content) for entry in indexed]))
        for entry in batch:
            if entry.skip_reason is None:
                content, secrets = next(answers)
                if secrets:
                    entry = replace(entry, content=content, sha256=hashlib.sha256(content).hexdigest())
                yield entry, secrets
            else:
                yield entry, ()


def read_snapshot(work: RepositoryWork) -> Snapshot:
    """Read the snapshot in a repository's work folder.

    Args:
        work: Work folder of the repository.

    Returns:
        The snapshot.

    Raises:
        SourceError: There is no snapshot.
    """
    return Snapshot(**json.loads(work.require(work.snapshot, "snapshot").read_text(encoding="utf-8")))


def read_contents(work: RepositoryWork, paths: Collection[str] | None = None) -> Iterator[tuple[str, str, bytes]]:
    """Yield (path, language, bytes) of indexed files, in path order, a few in memory at a time.

    Args:
        work: Work folder of the repository.
        paths: Only these; None for all. Row groups without any of them are not read.

    Yields:
        Paths, languages and contents.
    """
    with pq.ParquetFile(work.require(work.contents, "snapshot")) as file:
        groups: list[int] = list(range(file.num_row_groups))
        if paths is not None:
            held = [file.read_row_group(group, columns=["path"])["path"].to_pylist() for group in groups]
            groups = [group for group in groups if any(path in paths for path in held[group])]
        for batch in file.iter_batches(_READ_FILES, row_groups=groups):
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if paths is None or row[0] in paths:
                    yield row


class Contents:
    """Indexed files by path, one row group in memory at a time.

    Args:
        work: Work folder of the repository.

    Raises:
        SourceError: The snapshot stage has not run.
    """

    def __init__(self, work: RepositoryWork) -> None:
        self._table = work.require(work.contents, "snapshot")
        with pq.ParquetFile(self._table) as file:
            groups = [file.read_row_group(group, columns=["path"]) for group in range(file.num_row_groups)]
        self._places = {
            path: (group, row)
            for group, table in enumerate(groups)
            for row, path in enumerate(table["path"].to_pylist())
        }
        self._held = -1
        self._group = pa.table({})

    def paths(self) -> Iterable[str]:
        """Return all paths, in order."""
        return self._places.keys()

    def read(self, path: str) -> tuple[str, bytes] | None:
        """Return (language, content); None for a path the snapshot does not hold."""
        group, row = self._places.get(path, (-1, -1))
        if group < 0:
            return None
        if group != self._held:
            with pq.ParquetFile(self._table) as file:
                self._group, self._held = file.read_row_group(group, columns=["lang", "content"]), group
        return self._group["lang"][row].as_py(), self._group["content"][row].as_py()


def _write_contents(path: Path, entries: Iterator[CensusFile]) -> None:
    with pq.ParquetWriter(path, _CONTENTS, compression="zstd", compression_level=1, use_dictionary=False) as writer:
        batch: list[CensusFile] = []
        size = 0
        for entry in entries:
            batch.append(entry)
            size += entry.size_bytes
            if size >= _BATCH_BYTES:
                writer.write_table(_contents_table(batch))
                batch, size = [], 0
        writer.write_table(_contents_table(batch))


def _contents_table(batch: list[CensusFile]) -> pa.Table:
    columns = {
        "path": [entry.path for entry in batch],
        "lang": [entry.lang for entry in batch],
        "content": [entry.content for entry in batch],
    }
    return pa.table(columns, schema=_CONTENTS)


def _census_table(repo: str, rows: list[CensusFile]) -> pa.Table:
    columns = {
        "repo": [repo] * len(rows),
        "path": [row.path for row in rows],
        "lang": [row.lang or "" for row in rows],
        "path_class": [row.path_class for row in rows],
        "size_bytes": [row.size_bytes for row in rows],
        "lines": [0] * len(rows),
        "sha256": [row.sha256 for row in rows],
        "encoding": [row.encoding for row in rows],
        "skip_reason": [row.skip_reason or "" for row in rows],
        "parsed": [False] * len(rows),
        "syntax_errors": [False] * len(rows),
    }
    return pa.table(columns, schema=FILES)
