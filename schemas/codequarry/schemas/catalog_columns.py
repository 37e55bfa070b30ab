"""What every table, view and column of the catalog means, for those that are no table of `tables` as it is.

``docs/CATALOG.md`` is made from this and from the schemas; ``codequarry sql`` without a query prints it.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# Arrow ships no type stubs.

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from codequarry.schemas import tables
from codequarry.schemas.pools import POOLS
from codequarry.schemas.registry import MANIFEST_SOURCES, MANIFESTS

GROUPS: dict[str, dict[str, str]] = {
    "Files of the version": {
        **tables.DESCRIPTIONS,
        "embeddings": "A row per chunk: its vector in the first dense leg.",
        "embeddings2": "A row per chunk: its vector in the second dense leg; only in versions of tier standard.",
        "faiss_idmap": "A row per vector of the dense indexes: which chunk it is of.",
        "v_faiss_join": "Chunks beside the rows of the dense index, by full join: any NULL is an error.",
    },
    "Materialized for requests": {
        "chunks_mat": "Chunks without their text, in the order of files and places; `rowid` is the `chunk` of others.",
        "files_mat": "Files by number, sorted by repository and path.",
        "symbols_mat": "A row per definition, the best of a name first; SCIP's and the syntax's are one row where "
        "their names start at the same byte.",
        "occurrences_mat": "A row per place that names something, definitions included, sorted by what it names.",
        "places_mat": "The same places, sorted by place.",
        "outside_mat": "Symbols that the bundle names and does not define, such as those of the standard library.",
        "relations_mat": 'SCIP\'s relationships, read "target_id is an <role> of related_id".',
    },
    "Of the session": {
        "faiss_idmap_mat": "`faiss_idmap` as a table; read again only when the sha256 of the id map is another.",
        "faiss_idmap_mat_meta": "One row: what `faiss_idmap_mat` was made of.",
        "manifests": "A row per published version, the current one or not, whole or not.",
        "manifest_sources": "A row per version and repository.",
        "pools": "Candidates of sampled searches, where the service keeps them (`telemetry.pools`).",
        "v_pool_candidates": "`pools`, each candidate with its place in the version that is open.",
    },
}
"""What each table or view holds, by group."""

_OWN: dict[str, dict[str, str]] = {
    "v_faiss_join": {
        "faiss_row": "Row of the vector; NULL when the chunk has none.",
        "idmap_chunk_id": "Id in the id map; NULL when the chunk has no vector.",
    },
    "chunks_mat": {
        "file": "Number of the file in `files_mat`.",
        "shard": "Number of the file of texts that holds its text.",
        "text_start": "First byte of its text in that file.",
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
        "end_line": "Line of the end, 0-based.",
        "end_column": "Bytes before the end in that line.",
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
        "parquet_path": "The id map's file.",
        "parquet_sha256": "Its sha256, by the manifest.",
        "row_count": "Rows of `faiss_idmap_mat`.",
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
    "pools": (POOLS,),
    "v_pool_candidates": (POOLS,),
}


def column_descriptions(name: str) -> dict[str, str]:
    """What each column of a table or view means; a table of the catalog that is not described here has none.

    >>> column_descriptions("files_mat")["file"]
    'Number of the file, from 0.'
    >>> column_descriptions("places_mat")["chunk"] == column_descriptions("occurrences_mat")["chunk"]
    True
    """
    found = {field.name: _described(field.metadata) for schema in _INHERITED.get(name, ()) for field in schema}
    return {**found, **_OWN.get("occurrences_mat" if name == "places_mat" else name, {})}


def _described(metadata: Mapping[bytes, bytes] | None) -> str:
    return (metadata or {}).get(b"description", b"").decode()
