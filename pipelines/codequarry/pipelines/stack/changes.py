"""Differences between a source and the base: git or the census names candidates, their contents decide."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

from codequarry.pipelines.git.trees import changed_paths
from codequarry.pipelines.ignore.rules import OWN_IGNORE_FILE
from codequarry.pipelines.scip.stage import entries_over
from codequarry.pipelines.sources.files import SourceFiles, open_files
from codequarry.pipelines.sources.snapshot import Snapshot, snapshot_source
from codequarry.pipelines.sources.sources import Source
from codequarry.pipelines.sources.stamps import Stamp, read_stamps
from codequarry.pipelines.stack.base_version import BaseSource, CensusRow, count_languages, read_census
from codequarry.pipelines.store.workspace import Progress, RepositoryWork, repository_work
from codequarry.schemas.bundle.manifest import ScipEntry
from codequarry.schemas.errors import SourceError
from codequarry.schemas.settings.load import RepositorySettings, Settings


@dataclass(frozen=True, slots=True)
class Changes:
    """Files of a repository that differ from the base, and the repository as it is now."""

    source: Source
    work: RepositoryWork
    """Work folder of the files that differ."""
    hidden: frozenset[str]
    """Files of the base that changed or are gone."""
    own: Mapping[str, CensusRow]
    """Files that changed or came, indexed or skipped, by path."""
    snapshot: Snapshot
    """State of the whole repository."""
    scip: tuple[ScipEntry, ...]
    """Its indexers: those that ran for the base, and those that are not installed."""
    base: BaseSource

    @property
    def indexed(self) -> int:
        """Number of own files that are indexed."""
        return sum(not row.identity.skip_reason for row in self.own.values())

    @property
    def digests(self) -> dict[str, str]:
        """Digests of all indexed files of the repository, by path."""
        stayed = {path: row for path, row in self.base.census.items() if path not in self.hidden}
        rows = (stayed | {**self.own}).items()
        return {path: row.identity.sha256 for path, row in rows if not row.identity.skip_reason}

    @property
    def deleted(self) -> frozenset[str]:
        """Files of the base that are gone."""
        return frozenset(path for path in self.hidden if path not in self.own or _is_gone(self.own[path]))

    @property
    def changed(self) -> frozenset[str]:
        """Files that came or hold something else than in the base."""
        before = self.base.census
        return frozenset(
            path
            for path, row in self.own.items()
            if not _is_gone(row) and (path not in before or before[path].identity != row.identity)
        )


def find_changes(
    repository: RepositorySettings,
    source: Source,
    base: BaseSource,
    settings: Settings,
    progress: Progress,
    again: Collection[str] = (),
) -> Changes:
    """Read the files of a source that differ from the base into a work folder of their own.

    Args:
        repository: Repository with its name.
        source: Its listing.
        base: The same repository in the base.
        settings: Settings of the run, with the work folder of the files that differ.
        progress: Told of the work done.
        again: Files that are read as if they had changed.

    Returns:
        The differences.
    """
    listed = {path.decode("utf-8", "backslashreplace"): path for path in source.paths}
    wanted = _candidates(source, base, listed, settings).union(again)
    known = {path: base.census[path].identity for path in wanted if path in base.census and path not in again}
    some = replace(source, paths=tuple(sorted(listed[path] for path in wanted)))
    read = snapshot_source(repository, some, settings, progress, known)
    work = repository_work(settings.paths.work, repository.name)
    own = read_census(work)
    hidden = frozenset((base.census.keys() - listed.keys()) | (base.census.keys() & own.keys()))
    whole = {path: row for path, row in base.census.items() if path not in hidden} | own
    changed = count_languages(own.values())
    languages = base.languages - count_languages(base.census[path] for path in hidden) + changed
    scip = entries_over(base.entry.scip, base.described, languages, changed, settings)
    snapshot = _whole_snapshot(read, whole, base.snapshot, hidden)
    return Changes(source, work, hidden, own, snapshot, scip, base)


def _candidates(source: Source, base: BaseSource, listed: dict[str, bytes], settings: Settings) -> set[str]:
    """Return the listed paths that may differ from the base."""
    before = base.snapshot
    if not (source.commit or before.commit):
        return _touched(source, base, listed)
    if not (source.commit and before.commit) or before.differing is None:
        return set(listed)
    try:
        if source.from_commit:
            changed = changed_paths(source.root, before.commit, source.commit, settings.limits)
        else:
            changed = source.unwatched
            for commit in {before.commit, source.commit}:
                changed |= changed_paths(source.root, commit, limits=settings.limits)
    except SourceError:  # the base's commit is gone, as after a shallow fetch
        return set(listed)
    found = {path.decode("utf-8", "backslashreplace") for path in changed}.union(before.differing)
    return _with_came(found, base, listed, {OWN_IGNORE_FILE})


def _touched(source: Source, base: BaseSource, listed: dict[str, bytes]) -> set[str]:
    """Return the listed paths of a folder without git that were written since the base, or may have been."""
    before = read_stamps(base.work.stamps)
    with open_files(source) as files:
        found = {path for path, raw in listed.items() if path not in before or _stamp(files, raw) != before[path]}
    return _with_came(found, base, listed, {OWN_IGNORE_FILE, ".gitignore"})


def _stamp(files: SourceFiles, raw: bytes) -> Stamp | None:
    """Return the stamp of a file on disk; None where there is none, or a link is on its way."""
    status = None if files.escapes(os.path.dirname(raw)) else files.status(raw)
    return status.stamp if status is not None else None


def _with_came(found: set[str], base: BaseSource, listed: dict[str, bytes], ignore_files: set[str]) -> set[str]:
    """Return the listed paths among those found and those that came; all where a file of ignore rules is among them."""
    if any(path.rpartition("/")[2] in ignore_files for path in found | (listed.keys() ^ base.census.keys())):
        return set(listed)
    return (found & listed.keys()) | (listed.keys() - base.census.keys())


def _whole_snapshot(read: Snapshot, rows: dict[str, CensusRow], before: Snapshot, hidden: Collection[str]) -> Snapshot:
    """Return the state of a repository as a snapshot of all its files gives it."""
    # Sorted by code points, a list of paths is sorted by the bytes of UTF-8 as well.
    paths = [path for path in sorted(rows) if not rows[path].identity.skip_reason]
    tree = sha256("".join(f"{path}\0{rows[path].identity.sha256}\n" for path in paths).encode())
    indexed = [rows[path] for path in paths]
    if not indexed:
        raise SourceError(
            f"{read.name}: no file can be indexed", suggestion="check the path, .gitignore and [sources] exclude"
        )
    skipped = Counter(row.identity.skip_reason for row in rows.values() if row.identity.skip_reason)
    kept = [place for place in before.secret_places if _place_path(place) not in hidden]
    places = sorted([*kept, *read.secret_places], key=lambda place: _place_path(place).encode())
    return replace(
        read,
        tree_sha256=tree.hexdigest(),
        files=len(indexed),
        size_bytes=sum(row.size_bytes for row in indexed),
        classes=_counted(row.path_class for row in indexed),
        skipped=dict(sorted(skipped.items())),
        secrets=None if read.secrets is None else _counted(place.rpartition(" ")[2] for place in places),
        secret_places=places,
        differing=None,
    )


def _is_gone(row: CensusRow) -> bool:
    """Return whether a file of the commit is not in the work tree."""
    return row.identity.skip_reason == "missing"


def _counted(kinds: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(kinds).items()))


def _place_path(place: str) -> str:
    """Return the path of a secret's place, ``path:line kind``."""
    return place.rpartition(" ")[0].rpartition(":")[0]
