"""Stage 2: files become chunks with stable ids."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from codequarry.pipelines.chunk_workers import chunk_files
from codequarry.pipelines.snapshot import read_contents, read_snapshot
from codequarry.pipelines.workspace import Progress, replacing, repository_work, silent
from codequarry.schemas.ids import chunk_id
from codequarry.schemas.records import FileChunks
from codequarry.schemas.settings import Settings
from codequarry.schemas.tables import CHUNKS, FILES, write_table


@dataclass(frozen=True, slots=True)
class ChunkReport:
    """What the chunk stage made of a repository."""

    name: str
    files: int
    chunks: int
    parsed_files: int
    """Files chunked by their syntax tree; the others by lines."""
    files_with_syntax_errors: int
    chunks_by_language: dict[str, int]


def chunk_repository(name: str, settings: Settings, progress: Progress = silent) -> ChunkReport:
    """Chunk every file of a repository's snapshot into ``chunks.parquet`` and complete ``files.parquet``.

    Raises SourceError: the snapshot stage has not run.
    """
    work = repository_work(settings.paths.work, name)
    total = read_snapshot(work).files
    columns: dict[str, list[object]] = {field: [] for field in CHUNKS.names}
    outcomes: dict[str, tuple[int, FileChunks]] = {}
    results = chunk_files(read_contents(work), settings.chunking)
    for done, ((path, lang, content), made) in enumerate(results, start=1):
        outcomes[path] = (_line_count(content), made)
        for row in _rows(name, path, lang, content, made):
            for field, value in zip(CHUNKS.names, row, strict=True):
                columns[field].append(value)
        if done % 64 == 0 or done == total:
            progress(f"{name}: chunking", done, total)
    with replacing(work.chunks) as temporary:
        write_table(temporary, pa.table(columns, schema=CHUNKS), CHUNKS)
    with replacing(work.files) as temporary:
        write_table(temporary, _completed(pq.read_table(work.census), outcomes), FILES)
    return ChunkReport(
        name=name,
        files=len(outcomes),
        chunks=len(columns["chunk_id"]),
        parsed_files=sum(made.parsed for _, made in outcomes.values()),
        files_with_syntax_errors=sum(made.has_syntax_errors for _, made in outcomes.values()),
        chunks_by_language=dict(sorted(Counter(str(lang) for lang in columns["lang"]).items())),
    )


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
