"""Cleaning the store: it drops damaged entries and those that nothing asked for in a long time, or that are too many.

The store holds no only copy of anything, so a mistake here costs nothing but time. What the work folder holds now is
live, however long it was not asked for: stages that have nothing to do ask for nothing.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from codequarry.pipelines.adapt.stage import adapted_folders
from codequarry.pipelines.embed.encoders import encoder_directories, encoder_folders, read_adapted
from codequarry.pipelines.embed.sparse_encoders import sparse_directories, sparse_folder
from codequarry.pipelines.embed.stage import TEXT_COLUMNS
from codequarry.pipelines.embed.token_encoders import token_encoder_folder
from codequarry.pipelines.git.remote import clone_folder
from codequarry.pipelines.indexes.file_index import file_cards
from codequarry.pipelines.indexes.splade.impacts import impact_file
from codequarry.pipelines.indexes.text_indexes import TEXT_COLUMNS as TOKEN_COLUMNS
from codequarry.pipelines.indexes.text_indexes import chunk_text
from codequarry.pipelines.indexes.warp.stage import token_encoding
from codequarry.pipelines.secrets.redaction import scan_key, scans_file, scans_folder
from codequarry.pipelines.store.content import open_content_store, remove_store, stores_bytes
from codequarry.pipelines.store.syntax import syntax_file
from codequarry.pipelines.store.vectors import text_key, vector_file
from codequarry.pipelines.store.workspace import Progress, RepositoryWork, silent, working
from codequarry.pipelines.syntax.workers import syntax_key
from codequarry.schemas.bundle.tables import read_table
from codequarry.schemas.git_urls import parse_git_url
from codequarry.schemas.settings.load import Settings
from codequarry.serving.encoders.spec import EncoderSpec
from codequarry.serving.text.lexical import dense_text

_DAY_S = 86_400
_MB = 1_000_000
_NEVER = 1_000_000
"""Days after which nothing is dropped for its age."""
_Keys = Callable[[RepositoryWork], Iterator[bytes]]
"""Yields the keys of a database that a work folder holds."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Result for one kind of entries in the store: what was removed, or would be."""

    what: str
    kept: int
    damaged: int
    unused: int
    freed_bytes: int


def clean_store(
    settings: Settings, *, unused_days: int, dry_run: bool = False, progress: Progress = silent
) -> list[Cleaned]:
    """Check every entry of the store; drop the damaged ones, and those not used in that many days.

    Where the databases are larger than ``[store] max_mb``, the entries used least recently go too, by whole days.

    Args:
        settings: Settings that name the store and the work folder.
        unused_days: Days after which an unused entry is dropped.
        dry_run: Only count what would be dropped.
        progress: Told of the databases done.

    Returns:
        Results by kind of entry.

    Raises:
        BusyError: A run uses the store.
        UnavailableError: The disk refuses.
    """
    with working(settings):
        return _cleaned(settings, unused_days, dry_run, progress)


def limit_store(settings: Settings, progress: Progress = silent) -> list[Cleaned]:
    """Drop the entries used least recently, as `clean_store` does, where the databases are larger than the limit.

    The caller holds the work folder.

    Args:
        settings: Settings that name the store, its limit and the work folder.
        progress: Told of the databases done.

    Returns:
        Results by kind of entry; none when the limit holds.

    Raises:
        UnavailableError: The disk refuses.
    """
    return _cleaned(settings, _NEVER, False, progress) if over_limit(settings) else []


def over_limit(settings: Settings) -> bool:
    """Return whether the databases of the store are larger than the settings allow."""
    limit = settings.store.max_mb * _MB
    return bool(limit) and stores_bytes(settings.paths.store) > limit


def _cleaned(settings: Settings, unused_days: int, dry_run: bool, progress: Progress) -> list[Cleaned]:
    store = settings.paths.store
    works = [RepositoryWork(folder) for folder in sorted((settings.paths.work / "repositories").glob("*"))]
    specs = [EncoderSpec.load(folder) for folder in encoder_directories(settings).values()]
    own = {vector_file(store, spec.fingerprint): _live_texts for spec in specs}
    own[syntax_file(store, settings.chunking)] = _live_blobs
    own[scans_file(store)] = _live_scans
    in_use = set(encoder_folders(settings).values())
    if settings.late_interaction:
        own[token_encoding(settings).file(store)] = _live_token_texts
        in_use.add(token_encoder_folder(settings))
    if settings.learned_sparse:
        folder = sparse_folder(settings)
        fingerprint = EncoderSpec.load(sparse_directories(settings).documents).fingerprint
        own[impact_file(store, fingerprint)] = _live_token_texts
        in_use.add(folder)
    adapted = read_adapted(settings)
    fitted = {Path(adapted.result)} if adapted is not None else set[Path]()
    days = min(unused_days, _days_within(settings, own, works)) if over_limit(settings) else unused_days
    return [
        _databases("vectors", store / "vectors", own, works, days, dry_run, progress),
        _databases("tokens", store / "tokens", own, works, days, dry_run, progress),
        _databases("sparse terms", store / "splade", own, works, days, dry_run, progress),
        _databases("syntax", store / "syntax", own, works, days, dry_run, progress),
        _databases("secrets", scans_folder(store), own, works, days, dry_run, progress),
        _old("scip indexes", store.glob("scip/*/*/*.scip.zst"), _newest_indexes(store), unused_days, dry_run),
        _old("encoders", store.glob("encoders/[!.]*"), in_use, unused_days, dry_run),
        _old("fitted encoders", adapted_folders(settings).glob("[!.]*"), fitted, unused_days, dry_run),
        _old("clones", filter(Path.is_dir, store.glob("repositories/*")), _clones(settings), unused_days, dry_run),
    ]


def _days_within(settings: Settings, own: Mapping[Path, _Keys], works: Sequence[RepositoryWork]) -> int:
    """Return the days without use after which an entry has to go, so that the databases keep to the limit.

    Args:
        settings: Settings with the store and its limit.
        own: As in `_databases`.
        works: Work folders of the repositories.

    Returns:
        Days; those of all entries that are not live where these are still too few.
    """
    store = settings.paths.store
    by_day: Counter[int] = Counter()
    for file in store.glob("*/*.sqlite"):
        with open_content_store(file) as opened:
            by_day.update(opened.bytes_by_day(_live(file, own, works)))
    left, days = stores_bytes(store), _NEVER
    for day in sorted(by_day, reverse=True):
        if left <= settings.store.max_mb * _MB:
            break
        left, days = left - by_day[day], day
    return days


def _live(file: Path, own: Mapping[Path, _Keys], works: Sequence[RepositoryWork]) -> frozenset[bytes]:
    """Return the keys of a database that the work folders hold."""
    return frozenset(key for work in works for key in own[file](work)) if file in own else frozenset()


def _databases(
    what: str,
    folder: Path,
    own: Mapping[Path, _Keys],
    works: Sequence[RepositoryWork],
    unused_days: int,
    dry_run: bool,
    progress: Progress,
) -> Cleaned:
    """Sweep the databases of a folder.

    Args:
        what: Name of the kind of entry.
        folder: Folder of the databases.
        own: Databases that runs with these settings use, each with a function that yields the live keys of a work
            folder. Other databases are removed with their last entry.
        works: Work folders of the repositories.
        unused_days: Days after which an unused entry is dropped.
        dry_run: Only count what would be dropped.
        progress: Told of the databases done.

    Returns:
        The result for this kind.
    """
    files = sorted(folder.glob("*.sqlite"))
    kept = damaged = unused = freed = 0
    for done, file in enumerate(files, start=1):
        with open_content_store(file) as store:
            swept = store.sweep(_live(file, own, works), unused_days, dry_run=dry_run)
        if not swept.kept and file not in own and not dry_run:
            remove_store(file)
        kept, damaged, unused = kept + swept.kept, damaged + swept.damaged, unused + swept.unused
        freed += swept.freed_bytes
        progress(what, done, len(files))
    return Cleaned(what, kept, damaged, unused, freed)


def _live_texts(work: RepositoryWork) -> Iterator[bytes]:
    """Yield the keys of the texts whose vectors a work folder holds."""
    for file in sorted(work.parts.glob("*/chunks.parquet")):
        for row in read_table(file, list(TEXT_COLUMNS)).to_pylist():
            yield text_key(dense_text(**row))
    if work.table("modules").is_file():
        yield from (text_key(card.text) for card in file_cards(work) if card.indexed)


def _live_token_texts(work: RepositoryWork) -> Iterator[bytes]:
    """Yield the keys of the texts whose token codes, or impacts, are stored according to a work folder's parts."""
    for file in sorted(work.parts.glob("*/chunks.parquet")):
        for row in read_table(file, list(TOKEN_COLUMNS)).to_pylist():
            yield text_key(chunk_text(row))


def _live_blobs(work: RepositoryWork) -> Iterator[bytes]:
    """Yield the keys of the files whose chunks a work folder holds."""
    if work.census.is_file():
        for row in read_table(work.census, ["lang", "sha256", "skip_reason"]).to_pylist():
            if not row["skip_reason"]:
                yield syntax_key(row["lang"], row["sha256"])


def _live_scans(work: RepositoryWork) -> Iterator[bytes]:
    """Yield the keys of the files without secrets that a work folder holds.

    A file with secrets is known by its content before they were replaced.
    """
    if work.census.is_file():
        for row in read_table(work.census, ["path", "sha256", "skip_reason"]).to_pylist():
            if not row["skip_reason"]:
                yield scan_key(row["path"], row["sha256"])


def _newest_indexes(store: Path) -> set[Path]:
    """Return the SCIP index used last of every repository and indexer."""
    folders = {file.parent for file in store.glob("scip/*/*/*.scip.zst")}
    return {max(folder.glob("*.scip.zst"), key=_last_write_time) for folder in folders}


def _clones(settings: Settings) -> set[Path]:
    urls = [parse_git_url(each.url).public for each in settings.sources.repositories if each.url]
    return {clone_folder(url, settings.paths.store) for url in urls}


def _old(what: str, paths: Iterator[Path], live: set[Path], unused_days: int, dry_run: bool) -> Cleaned:
    """Remove files or folders that are not live and were not used in that many days."""
    kept = unused = freed = 0
    for path in sorted(paths):
        if path in live or time.time() - _last_write_time(path) < unused_days * _DAY_S:
            kept += 1
            continue
        unused += 1
        freed += _bytes(path)
        if not dry_run:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return Cleaned(what, kept, 0, unused, freed)


def _last_write_time(path: Path) -> float:
    """Return the time of the last write to a file, or to anything in a folder: seconds since the epoch."""
    return max(each.stat().st_mtime for each in (path, *(path.iterdir() if path.is_dir() else ())))


def _bytes(path: Path) -> int:
    return sum(each.stat().st_size for each in (path, *path.rglob("*")) if each.is_file())
