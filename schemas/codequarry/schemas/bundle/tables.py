"""Arrow schemas of every table in a bundle, and the one way to write them.

Byte ranges are half-open offsets into the file; lines are 0-based and inclusive; sha256 values are lower-case hex.

No column is nullable, "" stands for "none": DuckDB 2.0 answers a pushed-down ``IS NULL`` wrongly on a Parquet column
whose other values are all equal (``docs/DESIGN.md``, traps).
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false
# Arrow ships no type stubs: what it returns is unknown to the checker, the rest stays strict.

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def described_field(name: str, kind: pa.DataType, description: str) -> pa.Field:
    """Return a column without nulls and with a description."""
    return pa.field(name, kind, nullable=False, metadata={"description": description})


_field = described_field
_REPETITIVE = tuple(
    "repo path lang kind encoding skip_reason path_class parent name role module "
    "symbol scheme manager package version indexer position_encoding".split()
)
_SORTED = ("repo", "path")
_RANDOM = ("chunk_id",)
"""Numbers that differences make longer."""
_ROW_GROUP = 4_096
_ROWS_AS_VALUES = 1_024
"""Rows that a writer holds as Python's values, which take several times the memory of arrays."""
_ONE_PAGE = 1 << 40
"""Bytes of a page that no column reaches."""
_PAGE_BYTES = 16_384
"""Text in a page of a column whose pages are read one by one. It takes 56 us to inflate."""
_WRITE_BATCH = 8
"""Rows after which a page may end."""


FILES = pa.schema(
    [
        _field("repo", pa.string(), "Name of the repository."),
        _field("path", pa.string(), "Path inside the repository, '/' separated."),
        _field("lang", pa.string(), "Language by file name; empty when no rule knows the name."),
        _field(
            "path_class",
            pa.string(),
            "source, test, example, docs, generated, vendored or stub, by path rules; skipped files have one too.",
        ),
        _field("size_bytes", pa.int64(), "Size of the text in bytes of UTF-8, to which all byte offsets refer."),
        _field("lines", pa.int32(), "Number of lines; 0 when skipped."),
        _field("sha256", pa.string(), "sha256 of those bytes; empty when skipped unread."),
        _field(
            "encoding",
            pa.string(),
            "Of the file: utf-8, another that its text was read from, or unknown-8bit; empty when skipped.",
        ),
        _field("skip_reason", pa.string(), "Why the file is not indexed; empty when it is."),
        _field("parsed", pa.bool_(), "True when tree-sitter chunked it; False for the line-based fallback."),
        _field("syntax_errors", pa.bool_(), "True when the parse tree holds errors."),
    ]
)

CHUNKS = pa.schema(
    [
        _field("chunk_id", pa.int64(), "Stable positive 63-bit id, unique in the bundle."),
        _field("repo", pa.string(), "Name of the repository."),
        _field("path", pa.string(), "Path inside the repository."),
        _field("lang", pa.string(), "Language of the file."),
        _field("kind", pa.string(), "Kind of the definition: function, class, …, block, text."),
        _field("qualified_name", pa.string(), "Dotted name of the definition the chunk is or lies in; may be empty."),
        _field("symbols", pa.list_(pa.string()), "Qualified names of the definitions that start in the chunk."),
        _field("signature", pa.string(), "Signature of that definition, also where the chunk is a later part of it."),
        _field("doc", pa.string(), "First paragraph of its documentation, at most 300 characters."),
        _field("start_byte", pa.int64(), "First byte."),
        _field("end_byte", pa.int64(), "One past the last byte."),
        _field("start_line", pa.int32(), "First line, 0-based."),
        _field("end_line", pa.int32(), "Last line, 0-based, inclusive."),
        _field(
            "comment_percent",
            pa.int32(),
            "Share of comments and docstrings in the bytes that are no white space, 0 to 100.",
        ),
        _field(
            "content_sha256", pa.string(), "sha256 of the chunk's bytes; its Parquet file leaves out that of the text."
        ),
        _field("text", pa.string(), "The chunk's text; invalid UTF-8 replaced by U+FFFD."),
    ]
)

AST_NODES = pa.schema(
    [
        _field("repo", pa.string(), "Name of the repository."),
        _field("path", pa.string(), "Path inside the repository."),
        _field("qualified_name", pa.string(), "Dotted name inside the file; overloads share one."),
        _field("name", pa.string(), "Last part of the qualified name; a heading or key as a whole."),
        _field("kind", pa.string(), "Kind of the definition: function, method, class, table, section, key, …"),
        _field("start_byte", pa.int64(), "First byte of the syntax node; the comment above it is outside."),
        _field("end_byte", pa.int64(), "One past the last byte."),
        _field("start_line", pa.int32(), "First line, 0-based."),
        _field("end_line", pa.int32(), "Last line, 0-based, inclusive."),
        _field("name_start_byte", pa.int64(), "First byte of the name where it is written."),
        _field("name_start_line", pa.int32(), "Line on which the name is written, 0-based."),
        _field("name_start_column", pa.int32(), "Where on it the name starts, in bytes of the file (UTF-8), 0-based."),
        _field("signature", pa.string(), "The definition up to its body on one line, at most 300 characters."),
        _field("doc", pa.string(), "Docstring or comment above without markers, at most 2,000 characters; or empty."),
        _field("parent", pa.string(), "Qualified name of what it is defined in or for; empty when none."),
        _field("chunk_id", pa.int64(), "Id of the chunk in which it starts."),
    ]
)

AST_MEMBERS = AST_NODES
"""Columns of the names that shape no chunk: the same."""

AST_REFERENCES = pa.schema(
    [
        _field("repo", pa.string(), "Name of the repository."),
        _field("path", pa.string(), "Path inside the repository."),
        _field("name", pa.string(), "Identifier as written; some definition of the repository has this name."),
        _field("role", pa.string(), "call, import, type or other, by the syntax around it."),
        _field("start_byte", pa.int64(), "First byte of the identifier."),
        _field("start_line", pa.int32(), "Line it is on, 0-based."),
        _field("start_column", pa.int32(), "Bytes before it in that line."),
        _field("chunk_id", pa.int64(), "Id of the chunk that holds it."),
    ]
)

CST_NODES = pa.schema(
    [
        _field("repo", pa.string(), "Name of the repository."),
        _field("path", pa.string(), "Path inside the repository."),
        _field("chunk_id", pa.int64(), "Id of the chunk."),
        _field("kind", pa.string(), "Kind of a named node of the grammar that has no named child, e.g. identifier."),
        _field("count", pa.int32(), "How many of them start in the chunk."),
    ]
)

MODULES = pa.schema(
    [
        _field("repo", pa.string(), "Name of the repository."),
        _field("path", pa.string(), "Path inside the repository; every indexed file of a programming language."),
        _field("lang", pa.string(), "Language of the file."),
        _field("module", pa.string(), "Dotted name that the language, or else the path, gives the file."),
        _field("package", pa.string(), "Name of what holds the module, in Go its import path; may be empty."),
        _field(
            "doc",
            pa.string(),
            "First paragraph of what is said at its top, else of the definition it is named after; 300 characters.",
        ),
        _field("imports", pa.list_(pa.string()), "What it imports, as written, in the order of the file."),
        _field("external", pa.list_(pa.string()), "Those of imports that name no module of this table."),
        _field("resolved", pa.list_(pa.string()), "Paths of the other modules that its imports name, sorted."),
        _field("exports", pa.list_(pa.string()), "Names it offers to others, in the order of the file."),
        _field("tags", pa.list_(pa.string()), "entry_point, cli, config, package, re_export and path classes, sorted."),
        _field("lines", pa.int32(), "Lines of the file."),
        _field("code_lines", pa.int32(), "Lines that hold code."),
        _field("comment_lines", pa.int32(), "Lines that hold nothing but comment or documentation."),
        _field("definitions", pa.int32(), "Rows of ast_nodes."),
        _field("branches", pa.int32(), "Decision points: cyclomatic complexity of the whole file, less one."),
        _field("fan_in", pa.int32(), "Files of the repository that import it."),
        _field("fan_out", pa.int32(), "Files of the repository that it imports."),
    ]
)

FAISS_IDMAP = pa.schema(
    [
        _field("faiss_row", pa.int64(), "Row of the vector inside the FAISS index."),
        _field("chunk_id", pa.int64(), "Id the index returns for that row."),
    ]
)

SCIP_DOCUMENTS = pa.schema(
    [
        _field("repo", pa.string(), "Name of the repository."),
        _field("path", pa.string(), "Path inside the repository."),
        _field("lang", pa.string(), "Language of the file."),
        _field("indexer", pa.string(), "Program that indexed it, and its version."),
        _field("position_encoding", pa.string(), "Column unit of the index: utf-8, utf-16 or utf-32; ours are bytes."),
        _field("symbols", pa.int32(), "Symbols the document describes."),
        _field("occurrences", pa.int32(), "Occurrences kept."),
        _field("dropped", pa.int32(), "Occurrences whose range lies outside the file."),
    ]
)

SCIP_SYMBOLS = pa.schema(
    [
        _field("repo", pa.string(), "Name of the repository."),
        _field("path", pa.string(), "Document that describes it; empty for a symbol of another package."),
        _field("symbol", pa.string(), "SCIP symbol; `local N` means something in its document alone."),
        _field("scheme", pa.string(), "Scheme, usually the indexer."),
        _field("manager", pa.string(), "Package manager."),
        _field("package", pa.string(), "Package name."),
        _field("version", pa.string(), "Package version."),
        _field("descriptors", pa.string(), "Path inside the package, as the symbol writes it."),
        _field(
            "namespace", pa.string(), "Names of the leading namespace descriptors, joined by dots; empty for locals."
        ),
        _field("qualified_name", pa.string(), "Names of the descriptors, joined by dots; empty for locals."),
        _field("display_name", pa.string(), "Name for people: the indexer's, else the last descriptor's."),
        _field("kind", pa.string(), "One word: the indexer's, else by signature, else by descriptor."),
        _field("signature", pa.string(), "Signature as the indexer renders it; may be empty."),
        _field("documentation", pa.string(), "Documentation in Markdown, without the signature; may be empty."),
        _field(
            "relationships",
            pa.list_(pa.string()),
            "`<role> <symbol>`, role being definition, implementation, reference or type_definition.",
        ),
        _field("enclosing_symbol", pa.string(), "Symbol it is a part of; empty at the top."),
    ]
)

SCIP_OCCURRENCES = pa.schema(
    [
        _field("repo", pa.string(), "Name of the repository."),
        _field("path", pa.string(), "Path inside the repository."),
        _field("symbol", pa.string(), "SCIP symbol that stands here."),
        _field("start_byte", pa.int64(), "First byte."),
        _field("end_byte", pa.int64(), "One past the last byte."),
        _field("start_line", pa.int32(), "Line of the first byte, 0-based."),
        _field("start_column", pa.int32(), "Bytes before it in that line."),
        _field("end_line", pa.int32(), "Line of the end, 0-based."),
        _field("end_column", pa.int32(), "Bytes before the end in that line."),
        _field("roles", pa.int32(), "SCIP's SymbolRole bits."),
        _field("is_definition", pa.bool_(), "Role bit 1."),
        _field("is_import", pa.bool_(), "Role bit 2."),
        _field("is_write", pa.bool_(), "Role bit 4."),
        _field("is_read", pa.bool_(), "Role bit 8."),
        _field("is_generated", pa.bool_(), "Role bit 16."),
        _field("is_test", pa.bool_(), "Role bit 32."),
        _field("enclosing_start_byte", pa.int64(), "First byte of what encloses it; -1 when not recorded."),
        _field("enclosing_end_byte", pa.int64(), "One past its last byte; -1 when not recorded."),
    ]
)


SCHEMAS: dict[str, pa.Schema] = {
    "files": FILES,
    "chunks": CHUNKS,
    "ast_nodes": AST_NODES,
    "ast_members": AST_MEMBERS,
    "ast_references": AST_REFERENCES,
    "cst_nodes": CST_NODES,
    "modules": MODULES,
    "scip_documents": SCIP_DOCUMENTS,
    "scip_symbols": SCIP_SYMBOLS,
    "scip_occurrences": SCIP_OCCURRENCES,
}
"""Tables that every repository contributes rows to, by the name of their file."""

DESCRIPTIONS: dict[str, str] = {
    "files": "A row per file of the census, indexed or skipped with its reason.",
    "chunks": "A row per chunk: place, names and text. The chunks of a file cover each of its bytes once.",
    "ast_nodes": "A row per definition that chunks follow, such as a function or a type, by tree-sitter.",
    "ast_members": "A row per other name at file or type level, such as a field or a variable, by tree-sitter.",
    "ast_references": "A row per identifier that some definition of its repository is called, by tree-sitter.",
    "cst_nodes": "A row per chunk and kind of leaf of its syntax tree.",
    "modules": "A row per indexed file of a programming language: what it imports, offers and is.",
    "scip_documents": "A row per file that SCIP describes.",
    "scip_symbols": "A row per symbol that SCIP describes.",
    "scip_occurrences": "A row per place at which SCIP sees a symbol.",
}
"""Meaning of a row of each table."""


def embeddings_schema(dim: int) -> pa.Schema:
    """Return the schema of ``embeddings.parquet`` of the work folder; vectors are (dim,) float32, unit norm."""
    return _vectors_schema(pa.list_(pa.float32(), dim))


def half_schema(dim: int) -> pa.Schema:
    """Return the schema of ``embeddings.parquet`` of a version; vectors are (dim,) float16, nearly unit norm."""
    return _vectors_schema(pa.list_(pa.field("element", pa.float16(), nullable=False), dim))


def _vectors_schema(kind: pa.DataType) -> pa.Schema:
    return pa.schema(
        [
            _field("chunk_id", pa.int64(), "Id of the chunk."),
            _field("vector", kind, "Unit-norm vector of the chunk."),
        ]
    )


def write_vectors(path: Path, chunk_ids: np.ndarray, vectors: np.ndarray) -> None:
    """Write the table of a version's vectors, so that readers can map its numbers.

    One row group with one page of plain numbers for each column, the vectors last: so these are the last bytes before
    the footer. `serving.channels.vector_table` maps them.

    Args:
        path: File to write.
        chunk_ids: (n,) int64.
        vectors: (n, d) float32, written as float16.
    """
    schema = half_schema(vectors.shape[1])
    column = pa.FixedSizeListArray.from_arrays(_numbers(vectors, np.float16), type=schema.field("vector").type)
    table = pa.Table.from_arrays([_numbers(chunk_ids, np.int64), column], schema=schema)
    rows = max(1, len(table))
    pq.write_table(
        table, path, row_group_size=rows, data_page_size=_ONE_PAGE, max_rows_per_page=rows, compression="none",
        use_dictionary=False, write_statistics=False,
    )  # fmt: skip


def _numbers(values: np.ndarray, kind: type[np.generic]) -> pa.Array:
    """Return numbers, row by row, as an Arrow array; `pyarrow.array` would load pandas where it is installed."""
    flat = np.ascontiguousarray(values, kind).ravel()
    return pa.Array.from_buffers(pa.from_numpy_dtype(flat.dtype), len(flat), [None, pa.py_buffer(flat)])


def schema_hash(schema: pa.Schema) -> str:
    """Return the sha256 hex over names, types and nullability; descriptions do not count.

    >>> schema_hash(FILES) == schema_hash(FILES.remove_metadata())
    True
    """
    lines = [f"{field.name}:{field.type}:{field.nullable}" for field in schema]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def write_table(path: Path, table: pa.Table, schema: pa.Schema, *, paged: str = "") -> None:
    """Write Parquet with fixed writer options, so that the same rows give the same bytes.

    Args:
        path: File to write.
        table: Rows to write.
        schema: Columns to write, in this order.
        paged: Column of texts whose pages are read one by one, see `TableWriter`.

    Raises:
        pyarrow.ArrowInvalid: The table does not fit the schema.
    """
    with TableWriter(path, schema, paged=paged) as writer:
        writer.write(table)


def read_table(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Read all rows of one Parquet file.

    It takes half the time of `pyarrow.parquet.read_table`, which prepares for many files.
    """
    with pq.ParquetFile(path) as file:
        return file.read(columns)


class TableWriter:
    """Parquet writer with the options of `write_table` for rows and tables that come one after another.

    It holds one row group in memory.
    """

    def __init__(self, path: Path, schema: pa.Schema, *, paged: str = "") -> None:
        """Begin a file.

        Args:
            path: File to write.
            schema: Columns to write, in this order.
            paged: Column of texts whose pages are read one by one; none when empty. A page is a gzip member of the
                lengths of its texts and then the texts, one behind the other.
        """
        numbers = [field.name for field in schema if pa.types.is_integer(field.type) and field.name not in _RANDOM]
        options: dict[str, Any] = {
            "use_dictionary": [name for name in _REPETITIVE if name in schema.names],
            "compression": "zstd",
            "compression_level": 3,
            "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
            # Minima and maxima of what rows are sorted by. Those of texts would be texts in each header of a page.
            "write_statistics": [name for name in _SORTED if name in schema.names],
            # Parquet's own types tell all but the length of a list; descriptions of columns are in the catalog.
            "store_schema": any(pa.types.is_fixed_size_list(field.type) for field in schema),
        }
        if paged:
            others = [name for name in _leaves(schema) if name != paged]
            options |= {
                "compression": {**dict.fromkeys(others, "zstd"), paged: "gzip"},
                "compression_level": {**dict.fromkeys(others, 3), paged: 5},
                "data_page_size": _PAGE_BYTES,
                "write_batch_size": _WRITE_BATCH,
            }
            options["column_encoding"][paged] = "DELTA_LENGTH_BYTE_ARRAY"
        self._schema = schema
        plain = pa.schema([field.remove_metadata() for field in schema])
        self._writer = pq.ParquetWriter(path, plain, **options)
        self._buffered: list[list[object]] = [[] for _ in schema]
        """Values by column."""
        self._pending: pa.Table | None = None
        """Rows behind the last full row group."""
        self.rows = 0
        """Rows taken so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if kind is None:
            self._flush_rows()
            if self._pending is not None and self._pending.num_rows:
                self._writer.write_table(self._pending)
        self._writer.close()

    def extend(self, rows: Iterable[Sequence[object]]) -> None:
        """Add rows whose values are in the order of the schema."""
        if columns := list(zip(*rows, strict=True)):
            self.extend_columns(columns)

    def extend_columns(self, columns: Sequence[Sequence[object]]) -> None:
        """Add rows that are given by column.

        Args:
            columns: Values of each column, in the order of the schema.
        """
        for held, values in zip(self._buffered, columns, strict=True):
            held.extend(values)
        self.rows += len(columns[0])
        if len(self._buffered[0]) >= _ROWS_AS_VALUES:
            self._flush_rows()

    def write(self, table: pa.Table) -> None:
        """Add the rows of a table.

        Args:
            table: The rows; its columns may come in any order.

        Raises:
            pyarrow.ArrowInvalid: The table does not fit the schema.
        """
        self._flush_rows()
        self.rows += table.num_rows
        self._add(table.select(self._schema.names).cast(self._schema))

    def _flush_rows(self) -> None:
        if self._buffered[0]:
            columns = zip(self._buffered, self._schema, strict=True)
            arrays = [pa.array(values, field.type) for values, field in columns]
            self._buffered = [[] for _ in self._schema]
            self._add(pa.Table.from_arrays(arrays, schema=self._schema))

    def _add(self, table: pa.Table) -> None:
        """Add rows, writing full row groups only, so that the bytes do not depend on how the rows arrived."""
        if self._pending is not None:
            table = pa.concat_tables([self._pending, table])
        whole = table.num_rows - table.num_rows % _ROW_GROUP
        for start in range(0, whole, _ROW_GROUP):
            self._writer.write_table(table.slice(start, _ROW_GROUP).combine_chunks())
        self._pending = table.slice(whole)


def _leaves(schema: pa.Schema) -> list[str]:
    """Return the columns as Parquet names them: of a list, its elements."""
    return [f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name for field in schema]
