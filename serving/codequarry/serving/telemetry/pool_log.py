"""Writer of the pool log: rows are gathered on the telemetry's own thread and written as whole Parquet parts.

Besides its timeline, this is the only thing the service writes; it goes to a folder of its own outside of the bundles.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from codequarry.schemas.errors import CodequarryError
from codequarry.serving.request.trace import Trace
from codequarry.serving.text.analyzer import words
from codequarry.serving.version.open import Bundle

Lease = Callable[[], AbstractContextManager[Bundle]]


@dataclass(frozen=True, slots=True)
class LoggedSearch:
    """One search to be written."""

    at: float
    """Seconds since the epoch."""
    trace: Trace


class PoolLog:
    """Collector of rows that writes a part when enough are there. Belongs to one thread."""

    def __init__(self, folder: Path, lease: Lease, *, part_rows: int, parts: int, queries: bool) -> None:
        """Write parts to a folder.

        Args:
            folder: Folder of the parts.
            lease: Leases the version being served, for names and kinds.
            part_rows: Rows of a part.
            parts: Number of parts that are kept, the newest.
            queries: Write the text of queries.
        """
        self._folder, self._lease = folder, lease
        self._part_rows, self._parts, self._queries = part_rows, parts, queries
        self._rows: list[dict[str, Any]] = []
        self._written = 0

    def add(self, pool: LoggedSearch) -> None:
        """Add a search; writes a part when it is full.

        Args:
            pool: The search.

        Raises:
            OSError: The part cannot be written.
        """
        trace = pool.trace
        known = self._look_up_facts(trace)
        at = datetime.fromtimestamp(pool.at, UTC)
        for channel, (ids, scores) in sorted(trace.pools.items()):
            for rank, (chunk_id, score) in enumerate(zip(ids.tolist(), scores.tolist(), strict=True), start=1):
                hits, kinds, cst = known.get(chunk_id, ([], [], False))
                self._rows.append(
                    {
                        "query_id": trace.run_id,
                        "ts": at,
                        "bundle": trace.version,
                        "channel": channel,
                        "rank": rank,
                        "chunk_id": chunk_id,
                        "score": score,
                        "symbol_hits": hits,
                        "ast_node_kinds": kinds,
                        "cst_matches": cst,
                        "query": trace.query if self._queries else "",
                    }
                )
        if len(self._rows) >= self._part_rows:
            self.flush()

    def flush(self) -> None:
        """Write the gathered rows as a part, whole or not at all, and drop the oldest parts.

        Raises:
            OSError: The part cannot be written.
        """
        rows, self._rows = self._rows, []
        if not rows:
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        from codequarry.schemas.catalog.session_tables import PART_PREFIX, POOLS

        self._folder.mkdir(parents=True, exist_ok=True)
        self._written += 1
        name = f"{PART_PREFIX}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}-{self._written:04d}"
        aside = self._folder / f".{name}.writing"
        try:
            pq.write_table(pa.Table.from_pylist(rows, POOLS), aside, compression="zstd")
            aside.rename(self._folder / f"{name}.parquet")
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        written = sorted(self._folder.glob(f"{PART_PREFIX}*.parquet"), key=lambda part: part.stat().st_mtime_ns)
        for old in written[: -self._parts]:
            old.unlink(missing_ok=True)

    def _look_up_facts(self, trace: Trace) -> dict[int, tuple[list[str], list[str], bool]]:
        """Look up facts of the candidates in the version that answered.

        Returns (names the query holds, kinds of definitions, leaf kinds known) by chunk; nothing when the version has
        been replaced.
        """
        ids = sorted({one for found, _ in trace.pools.values() for one in found.tolist()})
        asked = {word.text.lower() for word in words(trace.query)}
        try:
            with self._lease() as bundle:
                if bundle.manifest.version != trace.version:
                    return {}
                rows = bundle.catalog.rows(ids)
                index = bundle.catalog.index
                started = index.definitions_in(ids)
                chunks = index.chunks["chunk_id"][index.column("chunk", started)].tolist()
                kinds_of, names = (index.column(name, started).tolist() for name in ("kind", "name"))
                found = [
                    (one, index.texts[kind], index.texts[name])
                    for one, kind, name in zip(chunks, kinds_of, names, strict=True)
                ]
        except CodequarryError:
            return {}
        hits: dict[int, list[str]] = {one: [] for one in ids}
        kinds: dict[int, set[str]] = {one: set() for one in ids}
        for chunk_id, kind, name in found:
            kinds[chunk_id].add(kind)
            parts = {word.text.lower() for word in words(name)}
            if parts and parts <= asked:
                hits[chunk_id].append(name)
        return {one: (sorted(hits[one]), sorted(kinds[one]), rows[one].cst) for one in ids if one in rows}
