"""Stage 2: files become chunks with stable ids, and the definitions that start in them."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from codequarry.pipelines.chunk_workers import chunk_files
from codequarry.pipelines.snapshot import read_contents, read_snapshot
from codequarry.pipelines.workspace import Progress, replacing, repository_work, silent
from codequarry.schemas.ids import chunk_id
from codequarry.schemas.records import FileChunks
from codequarry.schemas.settings import Settings
from codequarry.schemas.tables import AST_NODES, CHUNKS, FILES, write_table


@dataclass(frozen=True, slots=True)
class ChunkReport:
    """What the chunk stage made of a repository."""

    name: str
    files: int
    chunks: int
    definitions: int
    """Rows of ``ast_nodes``."""
    parsed_files: int
    """Files chunked by their syntax tree; the others by lines."""
    files_with_syntax_errors: int
    chunks_by_language: dict[str, int]


def chunk_repository(name: str, settings: Settings, progress: Progress = silent) -> ChunkReport:
    """Chunk every file of a repository's snapshot into ``chunks.parquet`` and ``ast_nodes.parquet``.

    Also completes ``files.parquet``.

    Raises SourceError: the snapshot stage has not run.
    """
    work = repository_work(settings.paths.work, name)
    total = read_snapshot(work).files
    chunks, nodes = _Columns(CHUNKS), _Columns(AST_NODES)
    outcomes: dict[str, tuple[int, FileChunks]] = {}
    results = chunk_files(read_contents(work), settings.chunking)
    for done, ((path, lang, content), made) in enumerate(results, start=1):
        outcomes[path] = (_line_count(content), made)
        rows = list(_rows(name, path, lang, content, made))
        chunks.extend(rows)
        nodes.extend(_node_rows(name, path, made, [row[0] for row in rows]))
        if done % 64 == 0 or done == total:
            progress(f"{name}: chunking", done, total)
    with replacing(work.chunks) as temporary:
        write_table(temporary, chunks.table(), CHUNKS)
    with replacing(work.ast_nodes) as temporary:
        write_table(temporary, nodes.table(), AST_NODES)
    with replacing(work.files) as temporary:
        write_table(temporary, _completed(pq.read_table(work.census), outcomes), FILES)
    return ChunkReport(
        name=name,
        files=len(outcomes),
        chunks=len(chunks.values["chunk_id"]),
        definitions=len(nodes.values["chunk_id"]),
        parsed_files=sum(made.parsed for _, made in outcomes.values()),
        files_with_syntax_errors=sum(made.has_syntax_errors for _, made in outcomes.values()),
        chunks_by_language=dict(sorted(Counter(str(lang) for lang in chunks.values["lang"]).items())),
    )


class _Columns:
    """A table that grows by rows."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.values: dict[str, list[object]] = {field: [] for field in schema.names}

    def extend(self, rows: Iterable[tuple[object, ...]]) -> None:
        for row in rows:
            for column, value in zip(self.values.values(), row, strict=True):
                column.append(value)

    def table(self) -> pa.Table:
        return pa.table(self.values, schema=self._schema)


def _rows(repo: str, path: str, lang: str, content: bytes, made: FileChunks) -> Iterator[tuple[object, ...]]:
    """Rows in the column order of CHUNKS."""
    equals: Counter[tuple[str, bytes]] = Counter()
    for span in made.spans:
        body = content[span.start_byte : span.end_byte]
        identity = (span.qualified_name, body)
        yield (
            chunk_id(repo, path, span.qualified_name, body, equals[identity]),
            repo,
            path,
            lang,
            span.kind,
            span.qualified_name,
            list(span.symbols),
            span.start_byte,
            span.end_byte,
            span.start_line,
            span.end_line,
            hashlib.sha256(body).hexdigest(),
            body.decode("utf-8", "replace"),
        )
        equals[identity] += 1


def _node_rows(repo: str, path: str, made: FileChunks, ids: list[object]) -> Iterator[tuple[object, ...]]:
    """Rows in the column order of AST_NODES; ids are those of the spans."""
    starts = [span.start_byte for span in made.spans]
    for node in made.ast_nodes:
        yield (
            repo,
            path,
            node.qualified_name,
            node.name,
            node.kind,
            node.start_byte,
            node.end_byte,
            node.start_line,
            node.end_line,
            node.name_start_line,
            node.name_start_column,
            node.signature,
            node.doc,
            node.parent,
            ids[bisect_right(starts, node.start_byte) - 1],
        )


def _line_count(content: bytes) -> int:
    return content.count(b"\n") + (not content.endswith(b"\n"))


def _completed(census: pa.Table, outcomes: dict[str, tuple[int, FileChunks]]) -> pa.Table:
    made = [outcomes.get(path) for path in census["path"].to_pylist()]
    replaced = {
        "lines": [outcome[0] if outcome else 0 for outcome in made],
        "parsed": [bool(outcome and outcome[1].parsed) for outcome in made],
        "syntax_errors": [bool(outcome and outcome[1].has_syntax_errors) for outcome in made],
    }
    for column, values in replaced.items():
        position = FILES.get_field_index(column)
        census = census.set_column(position, FILES.field(position), pa.array(values, FILES.field(position).type))
    return census
