"""The pool log: every candidate of every channel of sampled searches, as Parquet parts for later judging.

Parts lie beside the bundles, never inside of them, and are read as the view ``pools``.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# Arrow ships no type stubs.

from __future__ import annotations

import pyarrow as pa

POOLS = pa.schema(
    [
        ("query_id", pa.string()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("bundle", pa.string()),
        ("channel", pa.string()),
        ("rank", pa.int32()),
        ("chunk_id", pa.int64()),
        ("score", pa.float32()),
        ("symbol_hits", pa.list_(pa.string())),
        ("ast_node_kinds", pa.list_(pa.string())),
        ("cst_matches", pa.bool_()),
        ("query", pa.string()),
    ]
)
"""query_id: the run id of the timeline. rank: 1-based, in the channel. symbol_hits: definitions that start in the chunk
and whose name the query holds. ast_node_kinds: kinds of the definitions that start in it. cst_matches: whether
``cst_nodes`` holds its leaf kinds. query: "" unless the settings say that queries are logged."""

PART_PREFIX = "pools-"


def pools_view(folder: str) -> str:
    """The statement that attaches a folder of parts as the view ``pools``, e.g. beside an opened catalog."""
    quoted = folder.replace("'", "''")
    return f"CREATE OR REPLACE TEMP VIEW pools AS SELECT * FROM read_parquet('{quoted}/{PART_PREFIX}*.parquet')"
