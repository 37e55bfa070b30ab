"""The pool log: every candidate of every channel of sampled searches, as Parquet parts for later judging.

Parts lie beside the bundles, never inside of them, and are read as the view ``pools``.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# Arrow ships no type stubs.

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from codequarry.schemas.bundle.tables import described_field

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
