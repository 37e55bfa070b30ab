"""Meanings of the catalog's columns: those of the schemas, and of what tables and views add to them.

They are the comments of ``catalog.duckdb`` (``duckdb_columns()``), and the column "meaning" of ``docs/CATALOG.md``.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# Arrow ships no type stubs.

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from codequarry.schemas.bundle import tables
from codequarry.schemas.catalog.session_tables import MANIFEST_INDEXES, MANIFEST_SOURCES, MANIFESTS, POOLS

_EVIDENCE = "exact by SCIP; resolved by imports between files; by name, which may mean something else."
_OWN: dict[str, dict[str, str]] = {
    "bundle_folder": {"folder": "Path of the folder, as DuckDB opened the catalog."},
    "v_faiss_join": {
        "faiss_row": "Row of the vector; NULL when the chunk has none.",
        "idmap_chunk_id": "Id in the id map; NULL when the chunk has no vector.",
    },
    "v_documents": {
        "id": "Id of the chunk, as in answers.",
        "uri": "repository/path.",
        "symbol": "Definition that the chunk is or lies in; may be empty.",
        "preview": "The first 200 characters.",
        "content": "The text.",
    },
    "v_pool_rank_changes": {
        "version_before": "The earlier version.",
        "version_after": "The later version.",
        "rank_before": "Rank in the earlier one's answer, from 1; NULL when it was no candidate.",
        "rank_after": "Rank in the later one's answer, from 1; NULL when it was no candidate.",
        "gained": "Places gained; NULL when it was a candidate of one of them alone.",
    },
    "chunks_mat": {
        "file": "Number of the file in `files_mat`.",
        "shard": "Number of the file of `chunks` that holds it.",
        "text_bytes": "Bytes of its text.",
        "module": "Dotted name of the file; empty when it has none.",
        "scip": "True when SCIP indexed the file.",
        "cst": "True when `cst_nodes` has rows of the chunk.",
    },
    "files_mat": {"file": "Number of the file, from 0."},
    "symbols_mat": {
        "symbol_id": "Number of the row, from 0.",
        "target_id": "The first row with the same SCIP symbol; what places refer to.",
        "name_id": "The first row with the same name; what places without SCIP refer to.",
        "repo": "Name of the repository.",
        "path": "Path inside the repository.",
        "file": "Number of the file in `files_mat`.",
        "lang": "Language of the file.",
        "path_class": "Class of the path, as in `files`.",
        "name_key": "Name in lower case.",
        "name": "Name without what it lies in.",
        "qualified_name": "Dotted name inside the file.",
        "module": "Dotted name of the file; of what holds it, where the file itself is meant.",
        "kind": "Kind of the definition.",
        "parent": "Qualified name of what it is defined in; empty at the top.",
        "structural": "True when chunks and ranking follow it: functions, types, modules, and what SCIP knows.",
        "symbol": "SCIP symbol; empty when SCIP did not index the file.",
        "precise": "True when SCIP knows it.",
        "start_line": "Line of the name, 0-based.",
        "start_column": "Bytes before the name in its line.",
        "end_line": "Line on which the name ends, 0-based.",
        "end_column": "Bytes before its end in that line.",
        "start_byte": "First byte of the name.",
        "body_start_line": "First line of the whole definition, 0-based.",
        "body_end_line": "Last line of the whole definition, 0-based, inclusive.",
        "body_start_byte": "First byte of the whole definition; -1 when the syntax does not know it.",
        "body_end_byte": "One past its last byte; -1 when the syntax does not know it.",
        "signature": "Signature; may be empty.",
        "documentation": "Documentation; may be empty.",
        "chunk_id": "Id of the chunk in which it starts.",
    },
    "occurrences_mat": {
        "target_id": "What is named: `target_id` or `name_id` of `symbols_mat`, `target_id` of `outside_mat`, or of a "
        "local of the file, below 0.",
        "file": "Number of the file in `files_mat`.",
        "precise": "True when SCIP says so, False when it is by name.",
        "roles": "Bits: 1 definition, 2 import, 4 write, 8 read, 256 call, 512 type.",
        "start_line": "Line, 0-based.",
        "start_column": "Bytes before it in that line.",
        "lines": "Lines down to that of the end: 0 for a name on one line.",
        "width": "`end_column` less `start_column`.",
        "end_line": "Line of the end, 0-based; computed.",
        "end_column": "Bytes before the end in that line; computed.",
        "enclosing": "`symbol_id` of the innermost definition around it; -1 at the top.",
        "chunk": "`rowid` of its chunk in `chunks_mat`.",
    },
    "outside_mat": {
        "target_id": "What places refer to.",
        "symbol": "SCIP symbol.",
        "qualified_name": "Dotted name, where an indexer tells it.",
        "kind": "Kind, where an indexer tells it.",
    },
    "relations_mat": {
        "target_id": "The symbol.",
        "related_id": "What it is related to.",
        "role": "definition, implementation, reference or type_definition.",
        "of_type": "True when the symbol is a class or the like.",
    },
    "faiss_idmap_mat_meta": {
        "parquet_path": "The id map's file, inside of the version's folder.",
        "parquet_sha256": "Its sha256, by the manifest.",
        "row_count": "Rows of `faiss_idmap_mat`.",
    },
    "calls": {
        "caller_id": "`symbol_id` of the innermost definition around the call; -1 at the top of a file.",
        "caller": "Its qualified name; empty at the top of a file.",
        "repo": "Name of the repository.",
        "path": "File of the call.",
        "start_line": "Line of the call, 0-based.",
        "callee_id": "`symbol_id` of what is called.",
        "callee": "Its qualified name.",
        "callee_path": "File that defines it.",
        "callee_line": "Line of its name, 0-based.",
        "evidence": _EVIDENCE,
    },
    "inherits": {
        "type_id": "`symbol_id` of the type.",
        "type": "Its qualified name.",
        "repo": "Name of the repository.",
        "path": "File of the type.",
        "start_line": "Line of its name, 0-based.",
        "base_id": "`symbol_id` of the type that it extends or implements.",
        "base": "Its qualified name.",
        "base_path": "File that defines it.",
        "evidence": _EVIDENCE,
    },
    "tests_of": {
        "repo": "Name of the repository.",
        "test": "Path of the test file.",
        "path": "Path of the source file.",
        "definition": "Qualified name of the definition that is called; empty for the other reasons.",
        "reason": "calls, imports, or name: the files are called alike.",
        "evidence": _EVIDENCE,
    },
    "v_pool_candidates": {
        "repo": "Name of the repository; NULL when the open version has no such chunk.",
        "path": "Path inside the repository.",
        "qualified_name": "Dotted name of the definition the chunk is or lies in.",
        "start_line": "First line, 0-based.",
        "end_line": "Last line, 0-based, inclusive.",
    },
}
_INHERITED: dict[str, tuple[pa.Schema, ...]] = {
    **{name: (schema,) for name, schema in tables.SCHEMAS.items()},
    "embeddings": (tables.embeddings_schema(1),),
    "embeddings2": (tables.embeddings_schema(1),),
    "faiss_idmap": (tables.FAISS_IDMAP,),
    "faiss_idmap_mat": (tables.FAISS_IDMAP,),
    "v_faiss_join": (tables.CHUNKS,),
    "chunks_mat": (tables.CHUNKS,),
    "files_mat": (tables.FILES,),
    "manifests": (MANIFESTS,),
    "manifest_sources": (MANIFEST_SOURCES,),
    "manifest_indexes": (MANIFEST_INDEXES,),
    "pools": (POOLS,),
    "v_pool_candidates": (POOLS,),
    "v_pool_rank_changes": (POOLS,),
    "v_documents": (tables.CHUNKS,),
}
_WITHOUT: dict[str, frozenset[str]] = {
    "places_mat": frozenset({"enclosing", "chunk"}),
    "chunks_mat": frozenset({"signature", "doc", "content_sha256", "text"}),
    "v_documents": frozenset(
        "chunk_id repo path qualified_name signature doc comment_percent content_sha256 text".split()
    ),
    "v_pool_rank_changes": frozenset(POOLS.names) - {"query", "channel", "chunk_id"},
}
"""Columns of those above that a table or view leaves out."""


def column_meanings(name: str) -> dict[str, str]:
    """Return the meaning of each column of a table or view; nothing for a table that is not described here.

    >>> column_meanings("faiss_idmap_mat")["faiss_row"]
    'Row of the vector inside the FAISS index.'
    """
    inherited = {field.name: _description(field.metadata) for schema in _INHERITED.get(name, ()) for field in schema}
    own = _OWN.get("occurrences_mat" if name == "places_mat" else name, {})
    absent = _WITHOUT.get(name, frozenset())
    return {column: meaning for column, meaning in {**inherited, **own}.items() if column not in absent}


def _description(metadata: Mapping[bytes, bytes] | None) -> str:
    return (metadata or {}).get(b"description", b"").decode()
