"""Tables that a session adds to those of a version: the registry of all versions, and the pool log.

The pool log holds every candidate of every channel of sampled searches, for later judging. Its Parquet parts lie beside
the bundles, never inside of them, and are read as the view ``pools``.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# Arrow ships no type stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# Arrow ships no type stubs.

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from codequarry.schemas.bundle.tables import described_field

MANIFESTS = pa.schema(
    [
        described_field("version", pa.string(), "Name of the version."),
        described_field("current", pa.bool_(), "True for the one that CURRENT names."),
        described_field("created", pa.timestamp("s"), "When it was built, UTC; empty where its name holds no date."),
        described_field("sequence", pa.int64(), "Grows with every publish, also within one second."),
        described_field("format_version", pa.int32(), "Format of the bundle; 0 when the manifest cannot be read."),
        described_field("digest", pa.string(), "Digest of its contents: equal, equal versions."),
        described_field("tier", pa.string(), "fast or standard."),
        described_field("repositories", pa.int32(), "Repositories."),
        described_field("files", pa.int64(), "Indexed files."),
        described_field("skipped_files", pa.int64(), "Files left out."),
        described_field("chunks", pa.int64(), "Chunks."),
        described_field("size_bytes", pa.int64(), "Bytes of its files, shared ones included."),
        described_field("encoder", pa.string(), "Name of the first dense leg's encoder."),
        described_field("encoder_fingerprint", pa.string(), "Its fingerprint."),
        described_field("dim", pa.int32(), "Dimensions of its vectors."),
        described_field("faiss_factory", pa.string(), "FAISS factory of the first dense leg."),
        described_field("settings_sha256", pa.string(), "Hash of the settings that decide the contents."),
        described_field("path", pa.string(), "Folder of the version."),
        described_field("problem", pa.string(), "Why its manifest cannot be read; empty when it can."),
    ]
)


MANIFEST_SOURCES = pa.schema(
    [
        described_field("version", pa.string(), "Name of the version."),
        described_field("repo", pa.string(), "Name of the repository."),
        described_field("url", pa.string(), "Where it was fetched from; empty for a local path."),
        described_field("ref", pa.string(), "Branch, tag or commit that was asked for; empty when none was."),
        described_field("commit", pa.string(), "Commit id; empty for a directory without git."),
        described_field("dirty", pa.bool_(), "True when the indexed files differ from that commit, or there is none."),
        described_field("tree_sha256", pa.string(), "Digest over paths and contents of the indexed files."),
        described_field("files", pa.int64(), "Indexed files."),
        described_field("chunks", pa.int64(), "Their chunks."),
        described_field("skipped_files", pa.int64(), "Skipped files."),
    ]
)


MANIFEST_INDEXES = pa.schema(
    [
        described_field("version", pa.string(), "Name of the version."),
        described_field("channel", pa.string(), "Channel that answers from it: bm25, faiss, faiss2, warp or splade."),
        described_field("documents", pa.int64(), "Its chunks."),
        described_field("encoder", pa.string(), "Name of its encoder; empty when it has none."),
        described_field("encoder_fingerprint", pa.string(), "The encoder's fingerprint; empty when it has none."),
        described_field(
            "dim", pa.int32(), "Dimensions of its vectors, or terms of its vocabulary; 0 when it has none."
        ),
        described_field("variant", pa.string(), "FAISS factory, or profile of late interaction; else empty."),
    ]
)
POOLS = pa.schema(
    [
        described_field("query_id", pa.string(), "Run id of the request, as in the timeline."),
        described_field("ts", pa.timestamp("us", tz="UTC"), "When it was asked."),
        described_field("bundle", pa.string(), "Version that answered."),
        described_field("channel", pa.string(), "Channel that proposed the candidate."),
        described_field("rank", pa.int32(), "Its rank in that channel, from 1."),
        described_field("chunk_id", pa.int64(), "The candidate."),
        described_field("score", pa.float32(), "Its score in that channel."),
        described_field(
            "symbol_hits",
            pa.list_(pa.string()),
            "Definitions that start in the chunk and whose name the query holds.",
        ),
        described_field("ast_node_kinds", pa.list_(pa.string()), "Kinds of the definitions that start in the chunk."),
        described_field("cst_matches", pa.bool_(), "True when `cst_nodes` has rows of the chunk."),
        described_field("query", pa.string(), "The query; empty unless `telemetry.queries` is set."),
    ]
)

PART_PREFIX = "pools-"

_SQL_TYPES = {
    pa.string(): "VARCHAR",
    pa.timestamp("us", tz="UTC"): "TIMESTAMPTZ",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.bool_(): "BOOLEAN",
    pa.list_(pa.string()): "VARCHAR[]",
}


def pools_view(folder: Path, *, prefix: str = "") -> str:
    """Return the query of the view ``pools``: the parts of a folder, or the same columns without rows when it has none.

    Args:
        folder: Folder of the parts.
        prefix: Text in front of the folder's path.

    Returns:
        A SELECT statement.
    """
    if any(folder.glob(f"{PART_PREFIX}*.parquet")):
        quoted = f"{prefix}{folder}".replace("'", "''")
        return f"SELECT * FROM read_parquet('{quoted}/{PART_PREFIX}*.parquet', union_by_name = true)"
    columns = ", ".join(f"NULL::{_SQL_TYPES[field.type]} AS {field.name}" for field in POOLS)
    return f"SELECT {columns} WHERE false"


CANDIDATES_VIEW = (
    "SELECT pools.*, repo, path, qualified_name, start_line, end_line FROM pools "
    "LEFT JOIN (SELECT chunk_id, repo, path, qualified_name, start_line, end_line FROM chunks) USING (chunk_id)"
)
"""The query of the view ``v_pool_candidates``."""

RANK_CHANGES_VIEW = """
WITH latest AS (
    SELECT * FROM pools WHERE query <> ''
    QUALIFY query_id = first_value(query_id) OVER (PARTITION BY query, bundle ORDER BY ts DESC, query_id)
), pairs AS (
    SELECT DISTINCT old.query, old.bundle AS version_before, new.bundle AS version_after
    FROM latest AS old JOIN latest AS new ON old.query = new.query AND old.bundle < new.bundle
)
SELECT query, channel, version_before, version_after, chunk_id,
       max(rank) FILTER (bundle = version_before) AS rank_before,
       max(rank) FILTER (bundle = version_after) AS rank_after,
       rank_before - rank_after AS gained
FROM pairs JOIN latest USING (query) WHERE bundle IN (version_before, version_after)
GROUP BY query, channel, version_before, version_after, chunk_id
"""
"""The query of the view ``v_pool_rank_changes``: the latest searches for the same words, of every two versions."""
