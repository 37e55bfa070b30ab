"""The base of a delta version, as it is published and as its stages left the work folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

from codequarry.pipelines.bundle.manifest import list_differences, list_given_indexes
from codequarry.pipelines.publish.retention import created
from codequarry.pipelines.scip.given import given_files, given_identity
from codequarry.pipelines.sources.base_work import find_base_work
from codequarry.pipelines.sources.snapshot import FileIdentity, Snapshot
from codequarry.pipelines.store.workspace import RepositoryWork
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


@dataclass(frozen=True)
class BaseSource:
    """A repository of the base."""

    entry: SourceEntry
    work: RepositoryWork
    """Its work folder, as the base's stages left it."""
    snapshot: Snapshot
    version: BundlePaths
    """Paths of the base."""

    @cached_property
    def census(self) -> dict[str, CensusRow]:
        """Files by path."""
        return read_census(self.work)

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


def find_base(names: Sequence[str], settings: Settings) -> Base:
    """Return the complete version that CURRENT is or lies over, if a delta version can lie over it.

    Args:
        names: Repositories of the run.
        settings: Settings of the run.

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
    sources = {source.name: _source(source, paths, settings) for source in manifest.sources}
    return Base(manifest, file_sha256(paths.manifest), paths, current, sources)


def _source(entry: SourceEntry, version: BundlePaths, settings: Settings) -> BaseSource:
    """Return a repository of the base, whose stages' outputs must be there."""
    found = find_base_work(entry, settings)
    if found is None:
        raise FullBuildNeededError(f"the work folder of {entry.name} is not that of the last complete version")
    return BaseSource(entry, *found, version)
