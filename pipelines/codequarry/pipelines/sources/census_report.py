"""Report of what would be indexed and what not: counts of a census, which writes nothing but the clone of a URL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from codequarry.pipelines.sources.census import CensusFile, take_census
from codequarry.pipelines.sources.sources import open_source, repositories_by_name
from codequarry.pipelines.store.workspace import Progress, hide_home, silent
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import RepositorySettings, Settings

EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class LanguageTotal:
    """The indexed files of one language."""

    files: int
    lines: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SkippedCount:
    """The files skipped for one reason."""

    files: int
    examples: tuple[str, ...]
    """The first paths, in order."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One path of the census."""

    path: str
    lang: str
    """"" when no rule knows the name."""
    path_class: str
    bytes: int
    skip_reason: str
    """"" when it would be indexed."""


@dataclass(frozen=True, slots=True)
class CensusReport:
    """Files that the index command would read of a repository."""

    name: str
    place: str
    """Path or URL, without credentials, and the ref."""
    commit: str
    dirty: bool
    unborn: bool
    """True for a git work tree without commits yet."""
    files: int
    lines: int
    bytes: int
    languages: dict[str, LanguageTotal]
    """Most files first."""
    classes: dict[str, int]
    skipped: dict[str, SkippedCount]
    listed: tuple[ListedFile, ...]
    """Every path, in order."""


def census_repositories(settings: Settings, progress: Progress = silent) -> tuple[CensusReport, ...]:
    """Take the census of every repository of the settings, with the same function that ``index`` reads them with.

    Args:
        settings: Settings with the repositories.
        progress: Called with (task, files done, files in all).

    Returns:
        One report per repository.

    Raises:
        SourceError: A source cannot be listed or fetched.
        InvalidArgumentError: The settings name no repository, or two alike.
    """
    repositories = repositories_by_name(settings.sources.repositories)
    if not repositories:
        raise InvalidArgumentError(
            "no repository to look at", suggestion="give a path, or list [[sources.repositories]] in the settings file"
        )
    if any(each.url for each in repositories.values()):
        settings.paths.store.mkdir(parents=True, exist_ok=True)
        hide_home(settings)
    return tuple(_census(each, settings, progress) for each in repositories.values())


def _census(repository: RepositorySettings, settings: Settings, progress: Progress) -> CensusReport:
    source = open_source(repository, settings)
    listed: list[ListedFile] = []
    lines: Counter[str] = Counter()
    dirty = not source.commit

    def show(done: int, total: int) -> None:
        progress(f"{repository.name}: reading", done, total)

    for entry in take_census(source, settings.sources, show):
        dirty = dirty or entry.differs_from_head
        listed.append(_list_file(entry))
        if entry.skip_reason is None:
            lines[entry.lang or ""] += entry.content.count(b"\n") + (not entry.content.endswith(b"\n"))
    indexed = [each for each in listed if not each.skip_reason]
    return CensusReport(
        name=repository.name,
        place=repository.place,
        commit=source.commit,
        dirty=dirty,
        unborn=source.unborn,
        files=len(indexed),
        lines=lines.total(),
        bytes=sum(each.bytes for each in indexed),
        languages=_languages(indexed, lines),
        classes=dict(Counter(each.path_class for each in indexed).most_common()),
        skipped=_skipped(each for each in listed if each.skip_reason),
        listed=tuple(listed),
    )


def _list_file(entry: CensusFile) -> ListedFile:
    return ListedFile(entry.path, entry.lang or "", entry.path_class, entry.size_bytes, entry.skip_reason or "")


def _languages(indexed: list[ListedFile], lines: Counter[str]) -> dict[str, LanguageTotal]:
    files = Counter(each.lang for each in indexed)
    size: Counter[str] = Counter()
    for each in indexed:
        size[each.lang] += each.bytes
    return {lang: LanguageTotal(count, lines[lang], size[lang]) for lang, count in files.most_common()}


def _skipped(entries: Iterable[ListedFile]) -> dict[str, SkippedCount]:
    paths: dict[str, list[str]] = {}
    for each in entries:
        paths.setdefault(each.skip_reason, []).append(each.path)
    ordered = sorted(paths.items(), key=lambda item: (-len(item[1]), item[0]))
    return {reason: SkippedCount(len(found), tuple(found[:EXAMPLES])) for reason, found in ordered}
