"""Meanings of the catalog's tables and views, which ``codequarry sql`` without a query prints.

``docs/CATALOG.md`` is made from this, from the schemas, and from ``tests/contracts/catalog_columns.py``.
"""

from __future__ import annotations

from codequarry.schemas.bundle import tables

GROUPS: dict[str, dict[str, str]] = {
    "Files of the version": {
        **tables.DESCRIPTIONS,
        "embeddings": "A row per chunk: its vector in the first dense leg.",
        "embeddings2": "A row per chunk: its vector in the second dense leg; only in versions of tier standard.",
        "faiss_idmap": "A row per vector of the dense indexes: which chunk it is of.",
        "v_documents": "`chunks` under the names that answers of the tools use.",
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
        "faiss_idmap_mat": "`faiss_idmap` as a table, in the order of its rows.",
        "faiss_idmap_mat_meta": "One row: the id map that `faiss_idmap_mat` was made from.",
    },
    "Of the session": {
        "manifests": "A row per published version, the current one or not, whole or not.",
        "manifest_sources": "A row per version and repository.",
        "manifest_indexes": "A row per version and search index.",
        "pools": "Candidates of sampled searches, where the service keeps them (`telemetry.pools`).",
        "v_pool_rank_changes": "Queries that two versions were asked, and what became of each candidate's rank; needs "
        "`telemetry.queries`.",
        "v_pool_candidates": "`pools`, each candidate with its place in the version that is open.",
    },
}
"""What each table or view holds, by group."""
