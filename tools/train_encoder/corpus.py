"""Pairs of all sources, found once per source and kept, and the selection that one model is trained on."""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa

from codequarry.pipelines.adapt import pairs
from codequarry.pipelines.adapt.held_out import HeldOut, questions
from codequarry.pipelines.adapt.pairs import Row, pairs_of
from codequarry.pipelines.sources import path_classes
from codequarry.pipelines.sources.path_classes import SOURCE, path_class
from codequarry.pipelines.store.workspace import Progress, replacing, silent
from codequarry.schemas.bundle.tables import read_table, write_table
from codequarry.schemas.languages import MODULE_LANGUAGES, language_of
from codequarry.schemas.resources import available_cores
from tools.train_encoder.sources import TrainingSource, fetch, files

_MOST_PAIRS = {"doc": 120_000, "name": 18_000, "block": 15_000}
"""Most pairs of one language."""
_PER_SOURCE = 30_000
"""Most pairs of one language from one source; the choice among sources is by turns."""
_TASKS = 40
"""Sources after which workers are replaced, since syntax trees leave memory behind. The pool's own option for that
sometimes hangs (CPython issue 115634)."""
_LONG_LINES = 200
"""Average bytes of a line from which on a file counts as packed, not source."""

_GENERATED = re.compile(rb"(?i)@generated|do not edit|automatically generated|auto-?generated")
_CPP = re.compile(rb"\b(class|namespace|template)\b")
_SCHEMA = pa.schema([pa.field(name, pa.string(), False) for name in ("lang", "kind", "text", "header", "code")])


def collect(
    sources: Sequence[TrainingSource], never: frozenset[str], folder: Path, progress: Progress = silent
) -> dict[str, Path]:
    """Fetch every source and find its pairs, in as many processes as there are cores.

    Args:
        sources: Sources to fetch.
        never: Names of folders to leave out.
        folder: Folder that keeps archives and pairs; what is there is not made again.
        progress: Told of the sources done.

    Returns:
        The table of each source's pairs by its key.

    Raises:
        UnavailableError: As `sources.fetch` does.
        IntegrityError: As `sources.fetch` does.
    """
    made: dict[str, Path] = {}
    todo: list[tuple[Path, Path, frozenset[str]]] = []
    for done, source in enumerate(sources, start=1):
        archive = fetch(source, folder / "archives")
        made[source.key] = folder / "pairs" / f"{_version_of_rules()}-{source.sha256[:16]}.parquet"
        if not made[source.key].is_file():
            todo.append((archive, made[source.key], never))
        progress("fetching sources", done, len(sources))
    (folder / "pairs").mkdir(parents=True, exist_ok=True)
    for start in range(0, len(todo), _TASKS):
        with ProcessPoolExecutor(available_cores(), get_context("spawn")) as pool:
            for done, _ in enumerate(pool.map(_find, todo[start : start + _TASKS]), start=start + 1):
                progress("finding pairs", done, len(todo))
    return made


def rows_of(table: Path) -> Iterator[Row]:
    """Yield the pairs of one source."""
    for row in read_table(table).to_pylist():
        yield Row(**row)


def select(tables: dict[str, Path], apart: Iterable[Path], seed: int) -> list[tuple[str, Row]]:
    """Draw a training set: a number of pairs of each language and kind, by turns of sources, each once, shuffled.

    Args:
        tables: Tables of pairs by source.
        apart: Tables whose code and texts must not be among them.
        seed: Seed of the drawing.

    Returns:
        The pairs, each behind the key of its source.
    """
    drawn = random.Random(seed)
    seen = {_digest(text) for table in apart for row in rows_of(table) for text in (row.code, row.text)}
    found: dict[tuple[str, str], dict[str, list[tuple[str, Row]]]] = defaultdict(lambda: defaultdict(list))
    for key in sorted(tables):
        for row in rows_of(tables[key]):
            code, text = _digest(row.code), _digest(row.text)
            if code not in seen and (text not in seen or row.kind == "name"):
                seen.add(code)
                found[row.lang, row.kind][key].append((key, row))
    chosen: list[tuple[str, Row]] = []
    for (_, kind), by_source in sorted(found.items()):
        for rows in by_source.values():
            drawn.shuffle(rows)
        chosen += _in_turn(list(by_source.values()), _MOST_PAIRS[kind])
    drawn.shuffle(chosen)
    return chosen


def _in_turn(queues: list[list[tuple[str, Row]]], limit: int) -> list[tuple[str, Row]]:
    chosen: list[tuple[str, Row]] = []
    turn = 0
    while queues and len(chosen) < limit:
        queues = [rows for rows in queues if len(rows) > turn]
        chosen += [rows[turn] for rows in queues]
        turn += 1
    return chosen[:limit]


def _digest(text: str) -> bytes:
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()


def _version_of_rules() -> str:
    """Return a name of the code that finds pairs: an edited rule finds others."""
    own = [Path(__file__), Path(pairs.__file__), Path(path_classes.__file__)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in own)).hexdigest()[:8]


def _find(job: tuple[Path, Path, frozenset[str]]) -> None:
    """Write the pairs of one archive; its files come in an order that has nothing to do with their names.

    Args:
        job: Archive, table to write, and names of folders to leave out.
    """
    archive, target, never = job

    def is_wanted(path: str) -> bool:
        return (
            language_of(path) in MODULE_LANGUAGES
            and path_class(path) == SOURCE
            and never.isdisjoint(path.lower().split("/"))
        )

    found: list[Row] = []
    counts: Counter[str] = Counter()
    seen: set[bytes] = set()
    for path, data in sorted(files(archive, is_wanted), key=lambda file: _digest(file[0])):
        lang = language_of(path)
        if lang == "c" and path.endswith(".h") and _CPP.search(data):
            lang = "cpp"
        if lang is None or counts[lang] >= _PER_SOURCE or not _is_written(data):
            continue
        for pair in pairs_of(data, lang):
            if (digest := _digest(pair.code)) not in seen:
                seen.add(digest)
                counts[lang] += 1
                own = "typescript" if lang == "tsx" else lang
                found.append(Row(own, pair.kind, pair.text, f"{path} {pair.qualified_name}".strip(), pair.code))
    columns = list(zip(*found, strict=True)) or [()] * len(_SCHEMA)
    with replacing(target) as temporary:
        write_table(temporary, pa.table([pa.array(each, pa.string()) for each in columns], schema=_SCHEMA), _SCHEMA)


def _is_written(data: bytes) -> bool:
    """Return whether a file is text that somebody wrote."""
    if b"\0" in data[:4096] or _GENERATED.search(data[:600]) or len(data) > _LONG_LINES * (1 + data.count(b"\n")):
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def held_out(source: TrainingSource, table: Path) -> HeldOut:
    """Return the questions of one package, drawn by its name."""
    return questions(source.key, source.held_out, (row for row in rows_of(table) if row.lang == source.held_out))
