"""Stage 4: write precise definitions and references from SCIP indexes, made here or elsewhere.

Nothing here stops a run: an indexer that is missing or fails, or an index that cannot be read, leaves a status and a
reason, and syntax answers instead.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from codequarry.pipelines.scip.given import given_files, read_given
from codequarry.pipelines.scip.indexers import INDEXERS, Indexer, Installed, find_indexer
from codequarry.pipelines.scip.runner import cache_file, keep, read_kept, run_indexer
from codequarry.pipelines.secrets.redaction import Redactor, open_redactor
from codequarry.pipelines.sources.snapshot import Contents, read_contents, read_snapshot
from codequarry.pipelines.store.workspace import (
    Progress,
    RepositoryWork,
    replacing,
    repository_work,
    silent,
    write_json,
)
from codequarry.schemas.bundle.manifest import ScipEntry
from codequarry.schemas.bundle.tables import SCIP_DOCUMENTS, SCIP_OCCURRENCES, SCIP_SYMBOLS, read_table, write_table
from codequarry.schemas.errors import ScipIndexError
from codequarry.schemas.languages import MODULE_LANGUAGES
from codequarry.schemas.settings.load import Settings

if TYPE_CHECKING:  # loading the index reader takes a sixtieth of a commit's time, and most repositories have no index
    from codequarry.pipelines.scip.conversion import ScipTables

_BY_PLACE = [(name, "ascending") for name in ("path", "start_byte", "end_byte", "symbol", "roles")]
_LEAST_SHARE = 0.05
"""Share of a repository's files of programming languages from which on a missing indexer is named."""


@dataclass(frozen=True, slots=True)
class ScipReport:
    """Result of the SCIP stage for a repository."""

    name: str
    indexers: tuple[ScipEntry, ...]
    """One per given index, and one per indexer of languages that no given index covers, unless SCIP is switched off.

    An indexer that is missing for a small share of the files has none.
    """
    symbols: int
    occurrences: int
    definitions: int
    dropped: int
    """Number of documents of unknown files, occurrences outside their file, and damaged parts of an index."""
    cached: int
    """Indexers that did not have to run."""


@dataclass(frozen=True, slots=True)
class _LanguageResult:
    entry: ScipEntry
    tables: ScipTables | None
    cached: bool = False


def scip_repository(name: str, settings: Settings, progress: Progress = silent) -> ScipReport:
    """Read the SCIP indexes given for a repository, and make those of the languages they do not cover.

    Writes ``scip_documents.parquet``, ``scip_symbols.parquet``, ``scip_occurrences.parquet`` and ``scip.json``; the
    tables are empty when there is no index.

    Args:
        name: Name of the repository.
        settings: Settings of the run.
        progress: Called with (task, units done, units in all).

    Returns:
        Counts, and the status of each index.

    Raises:
        SourceError: The snapshot stage has not run.
    """
    work = repository_work(settings.paths.work, name)
    files = dict(_languages(work))
    outcomes: list[_LanguageResult] = []
    described: set[str] = set()
    with open_redactor(settings) as redactor:
        for file in given_files(name, settings):
            progress(f"{name}: {file.name}", 0, 1)
            outcomes.append(_read_given_index(file, name, work, files, described, redactor))
            progress(f"{name}: {file.name}", 1, 1)
    covered, languages = {files[path] for path in described}, Counter(files.values())
    for indexer in INDEXERS if settings.scip.enabled else ():
        own = {path: lang for path, lang in files.items() if lang in indexer.languages and lang not in covered}
        if not own:
            continue
        installed = find_indexer(indexer, settings)
        if isinstance(installed, str):
            outcomes += (_LanguageResult(entry, None) for entry in _missing(indexer, installed, len(own), languages))
            continue
        progress(f"{name}: {indexer.name}", 0, 1)
        outcomes.append(_index(installed, name, work, own, settings))
        progress(f"{name}: {indexer.name}", 1, 1)
    tables = [outcome.tables for outcome in outcomes if outcome.tables is not None]
    documents = pa.concat_tables([SCIP_DOCUMENTS.empty_table(), *(each.documents for each in tables)])
    symbols = pa.concat_tables([SCIP_SYMBOLS.empty_table(), *_each_once([each.symbols for each in tables])])
    occurrences = pa.concat_tables([SCIP_OCCURRENCES.empty_table(), *(each.occurrences for each in tables)])
    with replacing(work.table("scip_documents")) as temporary:
        write_table(temporary, documents.sort_by("path"), SCIP_DOCUMENTS)
    with replacing(work.table("scip_symbols")) as temporary:
        by_name = [("path", "ascending"), ("symbol", "ascending")]
        write_table(temporary, symbols.sort_by(by_name), SCIP_SYMBOLS)
    with replacing(work.table("scip_occurrences")) as temporary:
        write_table(temporary, occurrences.sort_by(_BY_PLACE), SCIP_OCCURRENCES)
    entries = tuple(outcome.entry for outcome in outcomes)
    write_json(work.scip, {"indexers": [entry.model_dump() for entry in entries]})
    return ScipReport(
        name=name,
        indexers=entries,
        symbols=symbols.num_rows,
        occurrences=occurrences.num_rows,
        definitions=int(occurrences["is_definition"].to_numpy().sum()),
        dropped=sum(each.left_out for each in tables),
        cached=sum(outcome.cached for outcome in outcomes),
    )


def read_scip_entries(work: RepositoryWork) -> tuple[ScipEntry, ...]:
    """Return the entries of the SCIP stage for the manifest.

    Args:
        work: Work folder of the repository.

    Returns:
        One entry per index.

    Raises:
        SourceError: The stage has not run.
    """
    held = json.loads(work.require(work.scip, "scip").read_text(encoding="utf-8"))
    return tuple(ScipEntry.model_validate(entry) for entry in held["indexers"])


def _each_once(tables: list[pa.Table]) -> Iterator[pa.Table]:
    """Yield the symbols of several indexes; a symbol of another package only from the first index that describes it."""
    described: set[str] = set()
    for table in tables:
        foreign = [symbol if not path else "" for path, symbol in zip(*_columns(table, "path", "symbol"), strict=True)]
        yield table.filter(pa.array([symbol not in described for symbol in foreign], pa.bool_()))
        described.update(filter(None, foreign))


def _columns(table: pa.Table, *names: str) -> list[list[str]]:
    return [table[name].to_pylist() for name in names]


def _read_given_index(
    file: Path, name: str, work: RepositoryWork, files: dict[str, str], described: set[str], redactor: Redactor
) -> _LanguageResult:
    """Read an index made elsewhere.

    Args:
        file: File of the index.
        name: Name of the repository.
        work: Its work folder.
        files: Language by path of each file of the snapshot.
        described: Paths that earlier indexes describe, which this one skips; the paths it describes are added.
        redactor: Takes secrets out of texts of the index.

    Returns:
        Manifest entry and tables.
    """
    from codequarry.pipelines.scip.conversion import scip_tables

    given = read_given(file)
    tables, own, reasons = None, {}, [given.reason] if given.reason else []
    if given.index is not None:
        contents = Contents(work)
        taken = frozenset(described)
        tables = scip_tables(
            name, given.index, lambda path: None if path in taken else contents.read(path), redactor.text
        )
        paths = tables.documents["path"].to_pylist()
        described.update(paths)
        covered = {files[path] for path in paths}
        own = {path: lang for path, lang in files.items() if lang in covered and path not in taken}
        if not own:
            count = len(given.index.documents)
            reasons.append(f"none of its {count} documents is an indexed file that no index before it describes")
            tables = None
    if tables is not None:
        if tables.dropped_occurrences:
            reasons.append(f"{tables.dropped_occurrences} occurrences lie outside their file: is it of this commit?")
        reasons += _shortfall(tables, own)
    status = "missing" if given.status == "missing" else "failed" if tables is None else "partial" if reasons else "ok"
    entry = _entry(given.label, status, "; ".join(reasons), len(own), tables)
    return _LanguageResult(entry.model_copy(update={"given": given.name, "sha256": given.sha256}), tables)


def _index(
    installed: Installed, name: str, work: RepositoryWork, own: dict[str, str], settings: Settings
) -> _LanguageResult:
    from codequarry.pipelines.scip.conversion import scip_tables
    from codequarry.pipelines.scip.index_file import read_scip

    kept = cache_file(settings.paths.store, name, read_snapshot(work).tree_sha256, installed)
    index, problem, timed_out = read_kept(kept), "", False
    cached = index is not None
    if index is None:
        run = run_indexer(installed, name, _inputs(installed.indexer, work), settings.scip)
        (work.path / f"{installed.indexer.name}.log").write_text(run.log, encoding="utf-8")
        problem, timed_out = run.problem, run.timed_out
        try:
            index = read_scip(run.data)
        except ScipIndexError:
            reason = problem or ("no index was written" if not run.data else "what it wrote is no index")
            return _LanguageResult(
                _entry(installed.label, "timeout" if timed_out else "failed", reason, len(own), None), None
            )
        if not problem and not index.damaged:
            keep(kept, run.data)
    contents = Contents(work)
    tables = scip_tables(name, index, lambda path: contents.read(path) if path in own else None)
    reasons = [*([problem] if problem else []), *_shortfall(tables, own)]
    status = "partial" if reasons else "ok"
    if not tables.documents.num_rows:
        status = "timeout" if timed_out else "failed"
    return _LanguageResult(_entry(installed.label, status, "; ".join(reasons), len(own), tables), tables, cached)


def entries_over(
    base: Sequence[ScipEntry],
    described: frozenset[str],
    languages: Mapping[str, int],
    changed: Mapping[str, int],
    settings: Settings,
) -> tuple[ScipEntry, ...]:
    """Return the entries of a delta version, for which no indexer is run.

    Args:
        base: Entries of its base.
        described: Languages of the files that these describe.
        languages: Number of files that are indexed now, by language.
        changed: Number of those that differ from the base's, by language.
        settings: Settings of the run.

    Returns:
        The base's entries, which say how many files are known by syntax since; an indexer that is missing is
        described by the files that there are now.
    """
    read_by = {indexer.name: indexer.languages for indexer in INDEXERS}
    since = {lang: count for lang, count in changed.items() if lang in described}
    entries: list[ScipEntry] = []
    for entry in base:
        own = described if entry.given else read_by.get(entry.indexer.partition(" ")[0], described)
        count = sum(files for lang, files in since.items() if lang in own)
        if count and entry.status in ("ok", "partial"):
            later = f"of the last complete version: {count} files that changed since are known by syntax"
            reason = "; ".join(filter(None, (entry.reason, later)))
            entry = entry.model_copy(update={"status": "partial", "reason": reason})
        if entry.given or entry.status != "missing":
            entries.append(entry)
    for indexer in INDEXERS if settings.scip.enabled else ():
        own = sum(languages.get(lang, 0) for lang in indexer.languages - described)
        installed = find_indexer(indexer, settings) if own else None
        if isinstance(installed, str):
            entries += _missing(indexer, installed, own, languages)
    return tuple(entries)


def _missing(indexer: Indexer, reason: str, own: int, languages: Mapping[str, int]) -> Iterator[ScipEntry]:
    """Describe an indexer that is not run; few files of its languages are not worth an entry.

    Args:
        indexer: The indexer.
        reason: Why it is not run.
        own: Number of files of its languages.
        languages: Number of all files by language.

    Yields:
        The entry.
    """
    if own >= _LEAST_SHARE * sum(count for lang, count in languages.items() if lang in MODULE_LANGUAGES):
        yield _entry(indexer.name, "missing", reason, own, None)


def _shortfall(tables: ScipTables, own: dict[str, str]) -> list[str]:
    """Return messages about what an index lacks."""
    reasons = [f"{tables.damaged} parts of the index cannot be read"] if tables.damaged else []
    if tables.nameless_symbols:
        reasons.append(f"{tables.nameless_symbols} symbols without a name are left out")
    if missing := len(own) - tables.documents.num_rows:
        reasons.append(f"{missing} of {len(own)} files are not in the index")
    return reasons


def _entry(label: str, status: str, reason: str, files: int, tables: ScipTables | None) -> ScipEntry:
    documents = tables.documents.num_rows if tables is not None else 0
    values = {"indexer": label, "status": status, "reason": reason, "files": files, "documents": documents}
    return ScipEntry.model_validate(values)


def _languages(work: RepositoryWork) -> Iterator[tuple[str, str]]:
    """Return (path, language) of every file of the snapshot; contents are not read."""
    table = read_table(work.require(work.contents, "snapshot"), ["path", "lang"])
    return zip(*_columns(table, "path", "lang"), strict=True)


def _inputs(indexer: Indexer, work: RepositoryWork) -> Iterator[tuple[str, bytes]]:
    """Yield the files that an indexer reads."""
    for path, lang, content in read_contents(work):
        more = indexer.project_files
        if lang in indexer.languages or more is None or path.rsplit("/", 1)[-1] in more:
            yield path, content
