"""Searches of the pool log, for the page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

_MOST = 500
"""Searches on the page, the newest ones."""
_PARTS = 3
"""Parts of the log that are read, the newest ones."""


@dataclass(frozen=True, slots=True)
class AskedSearch:
    """A search that was written to the pool log."""

    at: datetime
    query: str
    """Empty where queries are not kept."""
    version: str
    channels: tuple[str, ...]
    """Channels that proposed anything."""
    candidates: int


def asked_searches(folder: Path) -> list[AskedSearch]:
    """Read the newest searches of a pool log.

    Args:
        folder: Its folder.

    Returns:
        At most 500, the newest first; nothing where no part is written yet.
    """
    import pyarrow as pa

    from codequarry.schemas.bundle.tables import read_table
    from codequarry.schemas.catalog.session_tables import PART_PREFIX

    parts = sorted(folder.glob(f"{PART_PREFIX}*.parquet"), key=lambda part: part.stat().st_mtime_ns)[-_PARTS:]
    if not parts:
        return []
    columns = ["query_id", "ts", "query", "bundle", "channel"]
    table = pa.concat_tables(read_table(part, columns) for part in parts)
    grouped = table.group_by(["query_id", "ts", "query", "bundle"]).aggregate(
        [("channel", "distinct"), ("channel", "count")]
    )
    newest = grouped.sort_by([("ts", "descending"), ("query_id", "ascending")]).slice(0, _MOST).to_pylist()
    return [
        AskedSearch(
            row["ts"], row["query"], row["bundle"], tuple(sorted(row["channel_distinct"])), row["channel_count"]
        )
        for row in newest
    ]
