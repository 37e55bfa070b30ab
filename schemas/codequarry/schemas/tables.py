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
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def _field(name: str, kind: pa.DataType, description: str) -> pa.Field:
    return pa.field(name, kind, nullable=False, metadata={"description": description})


_REPETITIVE = tuple(
    "repo path lang kind encoding skip_reason path_class parent "
    "symbol scheme manager package version indexer position_encoding".split()
)


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
        _field("size_bytes", pa.int64(), "Size of the file in bytes."),
        _field("lines", pa.int32(), "Number of lines; 0 when skipped."),
        _field("sha256", pa.string(), "sha256 of the bytes; empty when skipped unread."),
        _field(
            "encoding", pa.string(), "utf-8, or unknown-8bit when some bytes are not valid UTF-8; empty when skipped."
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
        _field("start_byte", pa.int64(), "First byte."),
        _field("end_byte", pa.int64(), "One past the last byte."),
        _field("start_line", pa.int32(), "First line, 0-based."),
        _field("end_line", pa.int32(), "Last line, 0-based, inclusive."),
        _field("content_sha256", pa.string(), "sha256 of the chunk's bytes."),
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
        _field("name_start_line", pa.int32(), "Line on which the name is written, 0-based."),
        _field("name_start_column", pa.int32(), "Where on it the name starts, in bytes of the file (UTF-8), 0-based."),
        _field("signature", pa.string(), "The definition up to its body on one line, at most 300 characters."),
        _field("doc", pa.string(), "Docstring or comment above without markers, at most 2,000 characters; or empty."),
        _field("parent", pa.string(), "Qualified name of what it is defined in or for; empty when none."),
        _field("chunk_id", pa.int64(), "Id of the chunk in which it starts."),
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


def embeddings_schema(dim: int) -> pa.Schema:
    """Schema of ``embeddings.parquet``; vectors are (dim,) float32, unit norm."""
    return pa.schema(
        [
            _field("chunk_id", pa.int64(), "Id of the chunk."),
            _field("vector", pa.list_(pa.float32(), dim), "Unit-norm vector of the chunk."),
        ]
    )


def schema_hash(schema: pa.Schema) -> str:
    """sha256 hex over names, types and nullability; descriptions do not count.

    >>> schema_hash(FILES) == schema_hash(FILES.remove_metadata())
    True
    """
    lines = [f"{field.name}:{field.type}:{field.nullable}" for field in schema]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def write_table(path: Path, table: pa.Table, schema: pa.Schema) -> None:
    """Write Parquet with fixed writer options, so that the same rows give the same bytes.

    Raises pyarrow.ArrowInvalid: the table does not fit the schema.
    """
    conformed = table.select(schema.names).cast(schema)
    dictionary: Any = [name for name in _REPETITIVE if name in schema.names]
    pq.write_table(
        conformed,
        path,
        compression="zstd",
        compression_level=3,
        row_group_size=65_536,
        use_dictionary=dictionary,
    )
