"""Stage 2: cut files into chunks with stable ids, and write tables of their syntax."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from codequarry.pipelines.sources.snapshot import read_contents
from codequarry.pipelines.store.parts import (
    CHUNKED,
    FALLEN,
    MENTIONS,
    MODULE_FACTS,
    RELEASED,
    Part,
    break_seal,
    forget_parts,
    plan_parts,
    put_seal,
    sealed,
)
from codequarry.pipelines.store.row_groups import row_groups, rows_among
from codequarry.pipelines.store.syntax import open_syntax_store
from codequarry.pipelines.store.workspace import Progress, RepositoryWork, replacing, repository_work, silent
from codequarry.pipelines.syntax.chunks.rows import chunk_ids, chunk_rows, leaf_columns, node_rows, reference_columns
from codequarry.pipelines.syntax.facts.table import FACTS, fact_rows
from codequarry.pipelines.syntax.workers import Chunked, chunk_files
from codequarry.schemas.bundle.tables import (
    AST_MEMBERS,
    AST_NODES,
    AST_REFERENCES,
    CHUNKS,
    CST_NODES,
    FILES,
    TableWriter,
    read_table,
    write_table,
)
from codequarry.schemas.errors import SourceError
from codequarry.schemas.resources import trim_memory
from codequarry.schemas.settings.load import Settings

_NAMING = ("ast_nodes", "ast_members")
"""Tables of definitions, whose names references may mean."""
_PARTS_AT_ONCE = 8
"""Parts that are written together: each has open tables; more would take more memory, fewer more passes."""
_PART_TABLES: dict[str, pa.Schema] = {
    "chunks": CHUNKS,
    "ast_nodes": AST_NODES,
    "ast_members": AST_MEMBERS,
    MENTIONS: AST_REFERENCES,
    "cst_nodes": CST_NODES,
    MODULE_FACTS: FACTS,
}


@dataclass(frozen=True, slots=True)
class LanguageReport:
    """The files of one language."""

    files: int
    parsed: int
    syntax_errors: int
    chunks: int
    definitions: int


@dataclass(frozen=True, slots=True)
class ChunkReport:
    """Result of the chunk stage for a repository."""

    name: str
    files: int
    chunks: int
    definitions: int
    """Rows of ``ast_nodes``."""
    members: int
    """Rows of ``ast_members``."""
    references: int
    """Rows of ``ast_references``."""
    leaf_kinds: int
    """Rows of ``cst_nodes``."""
    parsed_files: int
    """Files chunked by their syntax tree; the others by lines."""
    files_with_syntax_errors: int
    by_language: dict[str, LanguageReport]
    """Counts by name of the language."""
    reused_files: int
    """Files that were not parsed, because their contents were parsed before."""
    parts: int
    """Groups of files with tables of their own."""
    reused_parts: int
    """Parts whose tables stayed as they were."""
    fallbacks: dict[str, str]
    """Reason, by path, for each file chunked by lines although its language has a grammar."""


def chunk_repository(
    name: str,
    settings: Settings,
    progress: Progress = silent,
    *,
    whole: bool = True,
    complete: Callable[[Sequence[Part]], None] = lambda _: None,
) -> ChunkReport:
    """Cut every file of a repository's snapshot into chunks, and store facts from its syntax tree.

    Writes ``chunks``, ``ast_nodes``, ``ast_members``, ``cst_nodes`` and the input of the module stage in parts;
    ``ast_references``; completes ``files``. Parts with the same files as in the last run stay as they are. No contents
    are parsed twice, in whatever repository they lie.

    Args:
        name: Name of the repository.
        settings: Settings of the run.
        progress: Called with (task, files done, files in all).
        whole: Also make again what `release_rows` removed of parts that are as in the last run.
        complete: Told of the parts that were made, a few at a time, as soon as their tables are complete.

    Returns:
        Counts of files, chunks and facts.

    Raises:
        SourceError: The snapshot stage has not run.
    """
    work = repository_work(settings.paths.work, name)
    parts = plan_parts(work, settings)
    total = sum(len(part.files) for part in parts)
    records = [_finished(part, () if whole else RELEASED) for part in parts]
    todo = [part for part, record in zip(parts, records, strict=True) if record is None]
    done = total - sum(len(part.files) for part in todo)
    progress(f"{name}: chunking", done, total)
    made = _chunk_parts(
        work, todo, settings, lambda files: progress(f"{name}: chunking", done + files, total), complete
    )
    forget_parts(work, parts)
    facts = [(record or made[part.number])["facts"] for part, record in zip(parts, records, strict=True)]
    with replacing(work.table("ast_references")) as temporary:
        references = _naming(parts, temporary)
    outcomes = {path: _FileColumns(*values) for each in facts for path, values in each["outcomes"].items()}
    with replacing(work.table("files")) as temporary:
        write_table(temporary, _completed(read_table(work.census), outcomes), FILES)
    by_language: dict[str, Counter[str]] = {}
    for each in facts:
        for lang, counts in each["languages"].items():
            by_language.setdefault(lang, Counter()).update(counts)
    known = {part.number for part in parts} - made.keys()
    return ChunkReport(
        name=name,
        files=total,
        chunks=sum(counts["chunks"] for counts in by_language.values()),
        definitions=sum(counts["definitions"] for counts in by_language.values()),
        members=sum(each["members"] for each in facts),
        references=references,
        leaf_kinds=sum(each["leaf_kinds"] for each in facts),
        parsed_files=sum(outcome.parsed for outcome in outcomes.values()),
        files_with_syntax_errors=sum(outcome.syntax_errors for outcome in outcomes.values()),
        by_language={lang: LanguageReport(**counts) for lang, counts in sorted(by_language.items())},
        reused_files=sum(len(part.files) for part in parts if part.number in known)
        + sum(record["facts"]["known"] for record in made.values()),
        parts=len(parts),
        reused_parts=len(known),
        fallbacks={path: reason for each in facts for path, reason in each["fallbacks"].items()},
    )


def restore_chunks(parts: Iterable[Part], settings: Settings) -> None:
    """Make the tables of parts again where `release_rows` removed some, from the answers in the store.

    Args:
        parts: Parts that the chunk stage has finished.
        settings: Settings of the run.

    Raises:
        SourceError: The chunk stage has not run, or another result came out, as after a crashed worker.
    """
    for part in parts:
        wanted = part.chunked()["files"]
        if all((part.folder / name).exists() for name in wanted):
            continue
        made = _chunk_parts(part.work, [part], settings, lambda _: None, lambda _: None)
        if made[part.number]["files"] != wanted:
            raise SourceError(
                f"{part.work.path.name}: part {part.number} of its chunks came out differently",
                suggestion="index again; CURRENT is unchanged",
            )


def _chunk_parts(
    work: RepositoryWork,
    todo: Sequence[Part],
    settings: Settings,
    show: Callable[[int], None],
    complete: Callable[[Sequence[Part]], None],
) -> dict[int, dict[str, Any]]:
    """Write the tables of parts, a few at a time, and return their records by number."""
    made: dict[int, dict[str, Any]] = {}
    done = 0
    groups = [todo[start : start + _PARTS_AT_ONCE] for start in range(0, len(todo), _PARTS_AT_ONCE)]
    with open_syntax_store(settings.paths.store, settings.chunking) as store:
        contents = chain.from_iterable(read_contents(work, _part_of(group).keys()) for group in groups)
        workers = settings.compute.processes if settings.compute.divides else 1
        with closing(chunk_files(contents, settings.chunking, store=store, workers=workers)) as chunked:
            for group in groups:
                made |= _write_parts(group, chunked, lambda files, before=done: show(before + files))
                trim_memory()
                complete(group)
                done += sum(len(part.files) for part in group)
    return made


class _FileColumns(NamedTuple):
    """Columns of ``files`` that are known once a file was read."""

    lines: int
    parsed: bool
    syntax_errors: bool


class _PartWriter:
    """Writer of the tables of one part while its files are chunked."""

    def __init__(self, part: Part, stack: ExitStack) -> None:
        part.folder.mkdir(parents=True, exist_ok=True)
        break_seal(part.folder, CHUNKED)
        self._part = part
        self._chunks, self._nodes, self._members, self._mentions, self._leaves, self._facts = (
            stack.enter_context(TableWriter(stack.enter_context(replacing(part.table(table))), schema))
            for table, schema in _PART_TABLES.items()
        )
        self._outcomes: dict[str, _FileColumns] = {}
        self._languages: dict[str, Counter[str]] = {}
        self._known = 0
        self._fallen: list[str] = []
        self._fallbacks: dict[str, str] = {}

    def add(self, chunked: Chunked) -> None:
        """Add the rows of a file."""
        (path, lang, content), made, known, fallen = chunked
        repo = self._part.work.path.name
        ids = chunk_ids(repo, path, content, made)
        outcome = _FileColumns(_line_count(content), made.parsed, made.has_syntax_errors)
        self._chunks.extend(chunk_rows(repo, path, lang, content, made, ids))
        self._nodes.extend(node_rows(repo, path, made, made.ast_nodes, ids))
        self._members.extend(node_rows(repo, path, made, made.members, ids))
        self._mentions.extend_columns(reference_columns(repo, path, made, ids))
        self._leaves.extend_columns(leaf_columns(repo, path, made, ids))
        self._facts.extend(fact_rows(path, lang, content, outcome.lines, made))
        self._outcomes[path] = outcome
        self._languages.setdefault(lang, Counter()).update(
            files=1,
            parsed=outcome.parsed,
            syntax_errors=outcome.syntax_errors,
            chunks=len(ids),
            definitions=len(made.ast_nodes),
        )
        self._known += known
        self._fallen += [path] if fallen else []
        if made.fallback:
            self._fallbacks[path] = made.fallback

    def seal(self) -> dict[str, Any]:
        """Write the part's completion marker, after its files, and return the record."""
        facts = {
            "outcomes": self._outcomes,
            "languages": self._languages,
            "members": self._members.rows,
            "leaf_kinds": self._leaves.rows,
            "known": self._known,
            FALLEN: self._fallen,
            "fallbacks": self._fallbacks,
        }
        names = [self._part.table(table).name for table in _PART_TABLES]
        return put_seal(self._part.folder, CHUNKED, self._part.key, names, facts)


def _finished(part: Part, may_lack: Collection[str]) -> dict[str, Any] | None:
    """Return the record of a complete part; None when it must be redone, as after a crashed worker."""
    record = sealed(part.folder, CHUNKED, part.key, may_lack=may_lack)
    return None if record is None or record["facts"][FALLEN] else record


def _part_of(parts: Sequence[Part]) -> dict[str, int]:
    """Return the number of the part by path of a file."""
    return {file.path: part.number for part in parts for file in part.files}


def _write_parts(
    parts: Sequence[Part], chunked: Iterator[Chunked], show: Callable[[int], None]
) -> dict[int, dict[str, Any]]:
    """Write and mark the parts whose files come next, and return their records by number."""
    part_of = _part_of(parts)
    with ExitStack() as stack:
        writers = {part.number: _PartWriter(part, stack) for part in parts}
        for done, each in enumerate(islice(chunked, len(part_of)), start=1):
            writers[part_of[each.file[0]]].add(each)
            if done % 64 == 0 or done == len(part_of):
                show(done)
    return {number: writer.seal() for number, writer in writers.items()}


def _naming(parts: Sequence[Part], target: Path) -> int:
    """Write the references that name a definition of the repository, and return their number."""
    names = pa.chunked_array(
        [read_table(part.table(table), ["name"])["name"].unique() for part in parts for table in _NAMING], pa.string()
    ).unique()
    with TableWriter(target, AST_REFERENCES) as writer:
        for part in parts:
            for table in row_groups(part.table(MENTIONS)):
                writer.write(rows_among(table, "name", names))
    return writer.rows


def _line_count(content: bytes) -> int:
    return content.count(b"\n") + (not content.endswith(b"\n"))


def _completed(census: pa.Table, outcomes: dict[str, _FileColumns]) -> pa.Table:
    read = [outcomes.get(path, _FileColumns(0, False, False)) for path in census["path"].to_pylist()]
    for column in _FileColumns._fields:
        position = FILES.get_field_index(column)
        values = pa.array([getattr(outcome, column) for outcome in read], FILES.field(position).type)
        census = census.set_column(position, FILES.field(position), values)
    return census
