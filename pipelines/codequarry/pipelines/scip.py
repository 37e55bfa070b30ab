"""Stage 4: SCIP indexers give precise definitions and references, where they are installed and succeed.

Nothing here stops a run: an indexer that is missing or fails leaves a status and a reason, and syntax answers instead.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from codequarry.pipelines.scip_index import ScipIndex, read_scip
from codequarry.pipelines.scip_runner import run_indexer
from codequarry.pipelines.scip_tables import ScipTables, scip_tables
from codequarry.pipelines.scip_tools import INDEXERS, TYPESCRIPT, Indexer, Installed, find_indexer
from codequarry.pipelines.snapshot import Contents, read_contents, read_snapshot
from codequarry.pipelines.workspace import Progress, RepositoryWork, replacing, repository_work, silent, write_json
from codequarry.schemas.errors import ScipIndexError
from codequarry.schemas.manifest import ScipEntry
from codequarry.schemas.settings import Settings
from codequarry.schemas.tables import SCIP_DOCUMENTS, SCIP_OCCURRENCES, SCIP_SYMBOLS, write_table

_BY_PLACE = [(name, "ascending") for name in ("path", "start_byte", "end_byte", "symbol", "roles")]
_PROJECT_FILES = frozenset({"package.json", "tsconfig.json", "jsconfig.json"})


@dataclass(frozen=True, slots=True)
class ScipReport:
    """What SCIP made of a repository."""

    name: str
    indexers: tuple[ScipEntry, ...]
    """One per indexer whose languages the repository holds; empty when there is none, or SCIP is switched off."""
    symbols: int
    occurrences: int
    definitions: int
    dropped: int
    """Documents of unknown files, occurrences outside their file, and damaged parts of an index."""
    cached: int
    """Indexers that did not have to run."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    entry: ScipEntry
    tables: ScipTables | None
    cached: bool = False


def scip_repository(name: str, settings: Settings, progress: Progress = silent) -> ScipReport:
    """Index a repository's snapshot with every SCIP indexer that is installed for its languages.

    Writes ``scip_documents.parquet``, ``scip_symbols.parquet``, ``scip_occurrences.parquet`` and ``scip.json``; the
    tables are empty when no indexer ran.

    Raises SourceError: the snapshot stage has not run.
    """
    work = repository_work(settings.paths.work, name)
    files = dict(_languages(work)) if settings.scip.enabled else {}
    outcomes: list[_Outcome] = []
    for indexer in INDEXERS:
        own = {path: lang for path, lang in files.items() if lang in indexer.languages}
        if own:
            progress(f"{name}: {indexer.name}", 0, 1)
            outcomes.append(_index(indexer, name, work, own, settings))
            progress(f"{name}: {indexer.name}", 1, 1)
    tables = [outcome.tables for outcome in outcomes if outcome.tables is not None]
    documents = pa.concat_tables([SCIP_DOCUMENTS.empty_table(), *(each.documents for each in tables)])
    symbols = pa.concat_tables([SCIP_SYMBOLS.empty_table(), *(each.symbols for each in tables)])
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
        definitions=occurrences["is_definition"].to_pylist().count(True),
        dropped=sum(each.unknown_documents + each.dropped_occurrences + each.damaged for each in tables),
        cached=sum(outcome.cached for outcome in outcomes),
    )


def read_scip_entries(work: RepositoryWork) -> tuple[ScipEntry, ...]:
    """What the scip stage left for the manifest. Raises SourceError: it has not run."""
    held = json.loads(work.require(work.scip, "scip").read_text(encoding="utf-8"))
    return tuple(ScipEntry.model_validate(entry) for entry in held["indexers"])


def _index(indexer: Indexer, name: str, work: RepositoryWork, own: dict[str, str], settings: Settings) -> _Outcome:
    installed = find_indexer(indexer, settings.paths.store)
    if installed is None:
        reason = f"{indexer.name} is neither on PATH nor in the store's tools folder"
        return _Outcome(_entry(indexer.name, "missing", reason, own, 0), None)
    kept = _cache(installed, name, work, settings)
    index, problem, timed_out = _read_kept(kept), "", False
    cached = index is not None
    if index is None:
        run = run_indexer(installed, name, _inputs(indexer, work), settings.scip)
        (work.path / f"{indexer.name}.log").write_text(run.log, encoding="utf-8")
        problem, timed_out = run.problem, run.timed_out
        try:
            index = read_scip(run.data)
        except ScipIndexError:
            reason = problem or ("no index was written" if not run.data else "what it wrote is no index")
            return _Outcome(_entry(installed.label, "timeout" if timed_out else "failed", reason, own, 0), None)
        if not problem and not index.damaged:
            _keep(kept, run.data)
    contents = Contents(work)
    tables = scip_tables(name, index, lambda path: contents.read(path) if path in own else None)
    documents = tables.documents.num_rows
    reasons = [problem] if problem else []
    if tables.damaged:
        reasons.append(f"{tables.damaged} parts of the index cannot be read")
    if documents < len(own):
        reasons.append(f"{len(own) - documents} of {len(own)} files are not in the index")
    status = "partial" if reasons else "ok"
    if not documents:
        status = "timeout" if timed_out else "failed"
    return _Outcome(_entry(installed.label, status, "; ".join(reasons), own, documents), tables, cached)


def _entry(label: str, status: str, reason: str, own: dict[str, str], documents: int) -> ScipEntry:
    values = {"indexer": label, "status": status, "reason": reason, "files": len(own), "documents": documents}
    return ScipEntry.model_validate(values)


def _languages(work: RepositoryWork) -> Iterator[tuple[str, str]]:
    """(path, language) of every file of the snapshot; contents are not read."""
    table = pq.read_table(work.require(work.contents, "snapshot"), columns=["path", "lang"])
    return zip(table["path"].to_pylist(), table["lang"].to_pylist(), strict=True)


def _inputs(indexer: Indexer, work: RepositoryWork) -> Iterator[tuple[str, bytes]]:
    """The files of its languages; for TypeScript also the files that say how they belong together."""
    for path, lang, content in read_contents(work):
        project = indexer is TYPESCRIPT and path.rsplit("/", 1)[-1] in _PROJECT_FILES
        if lang in indexer.languages or project:
            yield path, content


def _cache(installed: Installed, name: str, work: RepositoryWork, settings: Settings) -> Path:
    """Where the index of this tree by this indexer is kept; the name is part of every symbol."""
    parts = (read_snapshot(work).tree_sha256, name, installed.indexer.name, installed.version)
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return settings.paths.store / "scip" / f"{key}.scip.zst"


def _read_kept(kept: Path) -> ScipIndex | None:
    if not kept.is_file():
        return None
    try:
        with pa.input_stream(str(kept), compression="zstd") as stream:
            return read_scip(stream.read())
    except (OSError, ScipIndexError):  # damaged on disk: the indexer runs again
        return None


def _keep(kept: Path, data: bytes) -> None:
    with replacing(kept) as temporary:
        with pa.output_stream(str(temporary), compression="zstd") as stream:
            stream.write(data)
