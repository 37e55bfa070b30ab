"""The base of a delta version, as it is published and as its stages left the work folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

from codequarry.pipelines.bundle.manifest import list_differences, list_given_indexes
from codequarry.pipelines.publish.retention import created
from codequarry.pipelines.scip.given import given_files, given_identity
from codequarry.pipelines.sources.base_work import base_work_folders, find_base_work
from codequarry.pipelines.sources.snapshot import FileIdentity, Snapshot
from codequarry.pipelines.sources.stamps import Stamp, stamp_of
from codequarry.pipelines.store.parts import MODULE_FACTS
from codequarry.pipelines.store.workspace import RepositoryWork
from codequarry.pipelines.syntax.facts.table import SourceModule, read_modules
from codequarry.schemas.bundle.layout import BundlePaths, BundleRoot
from codequarry.schemas.bundle.manifest import Manifest, SourceEntry
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.settings.load import Settings
from codequarry.serving.files.integrity import complete_manifest, current_manifest, file_sha256


class FullBuildNeededError(Exception):
    """A delta version cannot say what the sources hold now; the message is a sentence that says why."""


@dataclass(frozen=True, slots=True)
class CensusRow:
    """A file of a census."""

    identity: FileIdentity
    lang: str
    path_class: str
    size_bytes: int


def read_census(work: RepositoryWork) -> dict[str, CensusRow]:
    """Return the rows of a census in a work folder, by path."""
    columns = ["path", "sha256", "encoding", "skip_reason", "lang", "path_class", "size_bytes"]
    table = read_table(work.require(work.census, "snapshot"), columns)
    rows = zip(*(table[name].to_pylist() for name in columns), strict=True)
    return {path: CensusRow(FileIdentity(sha, encoding, reason), *rest) for path, sha, encoding, reason, *rest in rows}


def count_languages(rows: Iterable[CensusRow]) -> Counter[str]:
    """Return the number of indexed files by language."""
    return Counter(row.lang for row in rows if not row.identity.skip_reason)


@dataclass(frozen=True)
class BaseSource:
    """A repository of the base."""

    entry: SourceEntry
    work: RepositoryWork
    """Its work folder, as the base's stages left it."""
    snapshot: Snapshot
    version: BundlePaths
    """Paths of the base."""

    configs: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    """Contents of configurations that were read already, by path; None for those that are not indexed."""

    @cached_property
    def census(self) -> dict[str, CensusRow]:
        """Files by path."""
        return read_census(self.work)

    @cached_property
    def languages(self) -> Counter[str]:
        """Number of indexed files by language."""
        return count_languages(self.census.values())

    @cached_property
    def modules(self) -> list[SourceModule]:
        """Its source files."""
        tables = [file for file in self.work.tables(MODULE_FACTS) if file.is_file()]
        return [module for file in tables for module in read_modules(file)]

    @property
    def described(self) -> frozenset[str]:
        """Languages of the files that SCIP indexes describe."""
        if all(entry.status == "missing" for entry in self.entry.scip):
            return frozenset()
        documents = read_table(self.version.table("scip_documents"), ["repo", "path"])
        rows = zip(*(column.to_pylist() for column in documents.columns), strict=True)
        return frozenset(self.census[path].lang for repo, path in rows if repo == self.entry.name)


@dataclass(frozen=True)
class Base:
    """A complete version that a delta version can lie over."""

    manifest: Manifest
    manifest_sha256: str
    paths: BundlePaths
    current: Manifest
    """Manifest of CURRENT: the base itself, or a delta version over it."""
    sources: Mapping[str, BaseSource]
    """Repositories by name."""


class KeptSources:
    """Repositories of the last base, for a process that makes several versions over it.

    What has been read of a repository is kept as long as the stages' outputs are the same files. A run that changes
    outputs replaces the snapshot first.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[object, BaseSource]] = {}

    def find(self, entry: SourceEntry, version: BundlePaths, settings: Settings) -> BaseSource | None:
        """Return a repository of a base.

        Args:
            entry: The repository in the base's manifest.
            version: Paths of the base.
            settings: Settings of the run, which are those of the base.

        Returns:
            The repository; None where its stages' outputs are not there any more.
        """
        outputs = [_stamp(work.snapshot) for work in base_work_folders(entry.name, settings)]
        key = (version, entry, outputs)
        held = self._held.pop(entry.name, None)
        if held is not None and held[0] == key:
            source = held[1]
        elif (found := find_base_work(entry, settings)) is not None:
            source = BaseSource(entry, *found, version)
        else:
            return None
        self._held[entry.name] = key, source
        return source


def _stamp(file: Path) -> Stamp | None:
    """Return the stamp of a file; None where there is none."""
    try:
        return stamp_of(file.stat())
    except OSError:
        return None


def find_base(names: Sequence[str], settings: Settings, kept: KeptSources) -> Base:
    """Return the complete version that CURRENT is or lies over, if a delta version can lie over it.

    Args:
        names: Repositories of the run.
        settings: Settings of the run.
        kept: Repositories of the last base.

    Returns:
        The base.

    Raises:
        FullBuildNeededError: Nothing can lie over it.
    """
    root = BundleRoot(settings.bundle.root)
    current, manifest = current_manifest(root), complete_manifest(root)
    if current is None or manifest is None:
        raise FullBuildNeededError("no whole version is published")
    if differences := ", ".join(list_differences(manifest, settings)):
        raise FullBuildNeededError(f"the published version was made with other settings or tools ({differences})")
    if settings.embedding.adapt or manifest.encoder.adaptation:
        raise FullBuildNeededError("the encoder is fitted to the repositories")
    if {source.name for source in manifest.sources} != set(names):
        raise FullBuildNeededError("the repositories are not those of the published version")
    for source in manifest.sources:
        if given_identity(given_files(source.name, settings)) != list_given_indexes(source):
            raise FullBuildNeededError(f"other SCIP indexes of {source.name} are given than the published version has")
    age = timedelta(hours=settings.bundle.delta_hours)
    if age and datetime.now(UTC) - created(manifest.version) > age:
        raise FullBuildNeededError(f"the last complete version is older than {settings.bundle.delta_hours:g} hours")
    paths = root.version(manifest.version)
    sources = {source.name: _source(source, paths, settings, kept) for source in manifest.sources}
    return Base(manifest, file_sha256(paths.manifest), paths, current, sources)


def _source(entry: SourceEntry, version: BundlePaths, settings: Settings, kept: KeptSources) -> BaseSource:
    """Return a repository of the base, whose stages' outputs must be there."""
    found = kept.find(entry, version, settings)
    if found is None:
        raise FullBuildNeededError(f"the work folder of {entry.name} is not that of the last complete version")
    return found
