"""Table of the facts of every source file as a module, written by the chunk stage for the module stage."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from codequarry.pipelines.syntax.chunks.rows import Row, first_paragraph
from codequarry.schemas.languages import MODULE_LANGUAGES
from codequarry.schemas.records import AstNode, FileChunks, Import, ModuleFacts

_NOT_IN_NAMES = re.compile(r"[\W_]+")
_NAME = pa.struct([pa.field("there", pa.string(), nullable=False), pa.field("here", pa.string(), nullable=False)])
_IMPORT = pa.struct(
    [pa.field("source", pa.string(), nullable=False), pa.field("names", pa.list_(_NAME), nullable=False)]
)
FACTS = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in {
            "path": pa.string(),
            "lang": pa.string(),
            "lines": pa.int32(),
            "definitions": pa.int32(),
            "package": pa.string(),
            "doc": pa.string(),
            "imports": pa.list_(_IMPORT),
            "exports": pa.list_(pa.string()),
            "defined": pa.list_(pa.string()),
            "branches": pa.int32(),
            "code_lines": pa.int32(),
            "comment_lines": pa.int32(),
            "entry_point": pa.bool_(),
            "only_imports": pa.bool_(),
        }.items()
    ]
)


@dataclass(frozen=True, slots=True)
class SourceModule:
    """A source file before its imports are resolved."""

    path: str
    lang: str
    lines: int
    definitions: int
    facts: ModuleFacts


def fact_rows(path: str, lang: str, content: bytes, lines: int, made: FileChunks) -> Iterator[Row]:
    """Yield the row of a file in the column order of FACTS; none for data and markup."""
    if lang not in MODULE_LANGUAGES:
        return
    facts = made.module
    if facts is None:
        code_lines = sum(not line.isspace() for line in content.split(b"\n") if line)
        facts = ModuleFacts("", "", (), (), (), 0, code_lines, 0, entry_point=False, only_imports=False)
    yield (
        path,
        lang,
        lines,
        len(made.ast_nodes),
        facts.package,
        first_paragraph(facts.doc or _doc_of_namesake(path, made.ast_nodes)),
        [
            {"source": one.source, "names": [{"there": there, "here": here} for there, here in one.names]}
            for one in facts.imports
        ],
        list(facts.exports),
        list(facts.defined),
        facts.branches,
        facts.code_lines,
        facts.comment_lines,
        facts.entry_point,
        facts.only_imports,
    )


def read_modules(table: Path) -> list[SourceModule]:
    """Return every source file in a table."""
    with pq.ParquetFile(table) as file:
        return [module for group in range(file.num_row_groups) for module in _modules(file.read_row_group(group))]


def _modules(rows: pa.Table) -> Iterator[SourceModule]:
    """Yield the source files of a table, by whole columns: a dictionary for each import takes four times as long."""
    columns = [
        _imports(column) if name == "imports" else column.to_pylist()
        for name, column in zip(rows.column_names, rows.combine_chunks().columns, strict=True)
    ]
    for path, lang, lines, definitions, package, doc, imports, exports, defined, *counts in zip(*columns, strict=True):
        facts = ModuleFacts(package, doc, imports, tuple(exports), tuple(defined), *counts)
        yield SourceModule(path, lang, lines, definitions, facts)


def _imports(column: pa.ChunkedArray) -> list[tuple[Import, ...]]:
    """Return the imports of each file."""
    found: list[tuple[Import, ...]] = []
    for files in column.chunks:
        imports = files.values
        names = imports.field("names")
        pairs = list(zip(*(names.values.field(name).to_pylist() for name in ("there", "here")), strict=True))
        sources = imports.field("source").to_pylist()
        each = [Import(*one) for one in zip(sources, _lists(names, pairs), strict=True)]
        found.extend(_lists(files, each))
    return found


def _lists(column: pa.ListArray, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of each list of a column."""
    starts = column.offsets.to_pylist()
    return (tuple(values[start:end]) for start, end in pairwise(starts))


def _doc_of_namesake(path: str, nodes: tuple[AstNode, ...]) -> str:
    """Return the documentation of the definition that the file is named after: it often describes the file."""
    wanted = _bare(PurePosixPath(path).name.partition(".")[0])
    return next((node.doc for node in nodes if node.doc and _bare(node.name) == wanted), "")


def _bare(name: str) -> str:
    """Return a name without case, underscores and punctuation.

    >>> _bare("HttpServer") == _bare("http_server")
    True
    """
    return _NOT_IN_NAMES.sub("", name).casefold()
