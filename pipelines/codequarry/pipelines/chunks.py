"""Stage 2: files become chunks with stable ids, and tables of what their syntax trees say."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from codequarry.pipelines.chunk_rows import chunk_ids, chunk_rows, leaf_rows, node_rows, reference_rows
from codequarry.pipelines.chunk_workers import chunk_files
from codequarry.pipelines.module_table import FACTS, fact_rows
from codequarry.pipelines.snapshot import read_contents, read_snapshot
from codequarry.pipelines.workspace import Progress, replacing, repository_work, silent
from codequarry.schemas.settings import Settings
from codequarry.schemas.tables import AST_NODES, AST_REFERENCES, CHUNKS, CST_NODES, FILES, TableWriter, write_table


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
    """What the chunk stage made of a repository."""

    name: str
    files: int
    chunks: int
    definitions: int
    """Rows of ``ast_nodes``."""
    references: int
    """Rows of ``ast_references``."""
    leaf_kinds: int
    """Rows of ``cst_nodes``."""
    parsed_files: int
    """Files chunked by their syntax tree; the others by lines."""
    files_with_syntax_errors: int
    by_language: dict[str, LanguageReport]
    """By name of the language."""


def chunk_repository(name: str, settings: Settings, progress: Progress = silent) -> ChunkReport:
    """Cut every file of a repository's snapshot into chunks, and keep what its syntax tree says.

    Writes ``chunks``, ``ast_nodes``, ``ast_references`` and ``cst_nodes``, completes ``files``, and keeps what the
    module stage needs.

    Raises SourceError: the snapshot stage has not run.
    """
    work = repository_work(settings.paths.work, name)
    total = read_snapshot(work).files
    outcomes: dict[str, _Outcome] = {}
    counted: dict[str, Counter[str]] = {}
    names: set[str] = set()
    mentioned = work.path / ".mentioned.parquet"
    with ExitStack() as stack:
        chunks, nodes, references, leaves, facts = (
            stack.enter_context(TableWriter(stack.enter_context(replacing(path)), schema))
            for path, schema in (
                (work.table("chunks"), CHUNKS),
                (work.table("ast_nodes"), AST_NODES),
                (mentioned, AST_REFERENCES),
                (work.table("cst_nodes"), CST_NODES),
                (work.facts, FACTS),
            )
        )
        for (path, lang, content), made in chunk_files(read_contents(work), settings.chunking):
            ids = chunk_ids(name, path, content, made)
            chunks.extend(chunk_rows(name, path, lang, content, made, ids))
            nodes.extend(node_rows(name, path, made, ids))
            references.extend(reference_rows(name, path, made, ids))
            leaves.extend(leaf_rows(name, path, made, ids))
            outcomes[path] = _Outcome(_line_count(content), made.parsed, made.has_syntax_errors)
            facts.extend(fact_rows(path, lang, content, outcomes[path].lines, made))
            outcome = outcomes[path]
            counted.setdefault(lang, Counter()).update(
                files=1,
                parsed=outcome.parsed,
                syntax_errors=outcome.syntax_errors,
                chunks=len(ids),
                definitions=len(made.ast_nodes),
            )
            names.update(node.name for node in made.ast_nodes)
            if len(outcomes) % 64 == 0 or len(outcomes) == total:
                progress(f"{name}: chunking", len(outcomes), total)
    with replacing(work.table("ast_references")) as temporary:
        kept = _naming(mentioned, names, temporary)
    mentioned.unlink()
    with replacing(work.table("files")) as temporary:
        write_table(temporary, _completed(pq.read_table(work.census), outcomes), FILES)
    return ChunkReport(
        name=name,
        files=len(outcomes),
        chunks=chunks.rows,
        definitions=nodes.rows,
        references=kept,
        leaf_kinds=leaves.rows,
        parsed_files=sum(outcome.parsed for outcome in outcomes.values()),
        files_with_syntax_errors=sum(outcome.syntax_errors for outcome in outcomes.values()),
        by_language={lang: LanguageReport(**counts) for lang, counts in sorted(counted.items())},
    )


class _Outcome(NamedTuple):
    """What ``files`` says of a file once it was read."""

    lines: int
    parsed: bool
    syntax_errors: bool


def _naming(mentioned: Path, names: set[str], target: Path) -> int:
    """Copy the references that name a definition of the repository; returns how many there are."""
    with pq.ParquetFile(mentioned) as file, TableWriter(target, AST_REFERENCES) as writer:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            writer.write(table.filter(pa.array([name in names for name in table["name"].to_pylist()], pa.bool_())))
    return writer.rows


def _line_count(content: bytes) -> int:
    return content.count(b"\n") + (not content.endswith(b"\n"))


def _completed(census: pa.Table, outcomes: dict[str, _Outcome]) -> pa.Table:
    read = [outcomes.get(path, _Outcome(0, False, False)) for path in census["path"].to_pylist()]
    for column in _Outcome._fields:
        position = FILES.get_field_index(column)
        values = pa.array([getattr(outcome, column) for outcome in read], FILES.field(position).type)
        census = census.set_column(position, FILES.field(position), values)
    return census
