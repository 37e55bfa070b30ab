"""Telemetry: metrics, a timeline of JSON lines and the pool log; requests never wait for any of them.

A request counts its figures in memory and puts its events into a queue; one thread writes them. When the queue or the
disk is full, events are dropped and counted.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Any, TextIO

from pydantic import BaseModel

from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.settings.service import TelemetrySettings
from codequarry.serving.request.admission import current_call
from codequarry.serving.request.trace import Trace
from codequarry.serving.telemetry.metrics import Metrics
from codequarry.serving.telemetry.pool_log import Lease, LoggedSearch, PoolLog
from codequarry.serving.telemetry.usage import TIMELINE

if TYPE_CHECKING:
    from fastmcp.tools.base import ToolResult

logger = logging.getLogger(__name__)

_OPTIONS = ("channel", "rerank", "use_reranker")
"""Arguments whose values the timeline tells; they say nothing of what a user works on."""
_MOST_PLACES = 64
"""Results of one answer whose digests the timeline holds."""
_QUEUED = 4_096
_FLUSH_S = 30.0
_STOP_S = 2.0


class _Idle:
    """Marker: no event came for a while."""


_IDLE = _Idle()


class Telemetry:
    """Observer of requests. Safe to share between threads; none of its methods raises."""

    def __init__(self, settings: TelemetrySettings, lease: Lease | None = None) -> None:
        """Start the writing thread.

        Args:
            settings: Outputs and their limits.
            lease: Leases the version being served, for the pool log; None where there is none.
        """
        self.metrics = Metrics()
        self._settings = settings
        self._key = os.urandom(16)
        """Key of digests in the timeline. Nobody keeps it, so that nobody can try out what was asked."""
        self._queue: Queue[dict[str, Any] | LoggedSearch | _Idle | None] = Queue(_QUEUED)
        self._timeline: _Timeline | None = None
        self._pools: PoolLog | None = None
        if settings.timeline != "off":
            to_file = settings.timeline == "file"
            self._timeline = _Timeline(settings.folder / TIMELINE if to_file else None, settings.timeline_bytes)
        if settings.pools and lease is not None:
            self._pools = PoolLog(
                settings.pool_folder,
                lease,
                part_rows=settings.pool_part_rows,
                parts=settings.pool_parts,
                queries=settings.queries,
            )
        self._thread = threading.Thread(target=self._write, name="telemetry", daemon=True)
        if self._timeline or self._pools:
            self._thread.start()

    @property
    def pool_folder(self) -> Path | None:
        """Folder of the pool log; None where none is written."""
        return self._settings.pool_folder if self._pools is not None else None

    @contextmanager
    def request(self, trace: Trace, request: BaseModel) -> Iterator[None]:
        """Observe one request, whose measurements go into the trace."""
        started, outcome = time.perf_counter(), "ok"
        self._careful(partial(self._started, trace, request))
        try:
            yield
        except CodequarryError as error:
            outcome = error.code
            raise
        except BaseException:
            outcome = "INTERNAL"
            raise
        finally:
            self._careful(partial(self._finished, trace, time.perf_counter() - started, outcome))

    def rejected(self, tool: str, code: str) -> None:
        """Count a call that ended in an error."""
        self.metrics.rejected(tool, code)
        if code == "BUSY":
            self.metrics.admission("busy")

    def answered(self, trace: Trace, tool: str, arguments: dict[str, Any], result: ToolResult) -> None:
        """Note how large an answer is, and by digests what was asked for and which places were given.

        Args:
            trace: Measurements of the call.
            tool: Name of the tool.
            arguments: Arguments as they came.
            result: The answer.
        """
        if self._timeline is not None:
            self._careful(partial(self._answered, trace, tool, arguments, result))

    def close(self) -> None:
        """Write the remaining events, waiting a few seconds at most."""
        if self._thread.is_alive():
            with suppress(Full):
                self._queue.put(None, timeout=_STOP_S)
            self._thread.join(_STOP_S)

    def _started(self, trace: Trace, request: BaseModel) -> None:
        self.metrics.admission("admitted")
        if self._timeline is None:
            return
        event: dict[str, Any] = {"event": "start", "run_id": trace.run_id, "tool": trace.tool}
        given = request.model_dump(mode="json", exclude_defaults=True)
        filters = given.get("filters", {})
        if self._settings.queries:
            event |= {"query": trace.query, "filters": filters}
        else:
            # Write counts only: names and globs would reveal what a user works on.
            event["filters"] = {name: len(values) for name, values in filters.items()}
        call = current_call()
        event |= {"scoped": bool(given.get("scope_id")), "client": call.client}
        event["sees"] = {"whole": call.scope.whole, "digest": call.scope.digest, "groups": call.scope.groups}
        event |= {name: getattr(request, name) for name in _OPTIONS if hasattr(request, name)}
        self._put({"ts": _now(), **event})

    def _finished(self, trace: Trace, seconds: float, outcome: str) -> None:
        self.metrics.finished(trace, seconds)
        if self._timeline is not None:
            event = {
                "ts": _now(),
                "event": "finish",
                "run_id": trace.run_id,
                "tool": trace.tool,
                "outcome": outcome,
                "version": trace.version,
                "duration_s": round(seconds, 6),
                "stages": {name: round(took, 6) for name, took in trace.stages.items()},
                "fan_out": {name: len(ids) for name, (ids, _) in trace.pools.items()},
                "decisions": dict(trace.gates),
                "degraded": trace.degraded,
                "density": round(trace.density, 6),
            }
            self._put(event)
        sampled = self._pools is not None and trace.pools and random.random() < self._settings.pool_sample
        if sampled:
            self._put(LoggedSearch(time.time(), trace))

    def _answered(self, trace: Trace, tool: str, arguments: dict[str, Any], result: ToolResult) -> None:
        payload = result.structured_content or {}
        text = sum(len(getattr(item, "text", "")) for item in result.content)
        event = {
            "ts": _now(),
            "event": "answer",
            "run_id": trace.run_id,
            "tool": tool,
            "client": current_call().client,
            "ok": not result.is_error,
            "asked": self._digest(json.dumps(arguments, sort_keys=True, default=str)),
            "text_chars": text,
            "structured_chars": len(json.dumps(payload, ensure_ascii=False, separators=(",", ":"))),
            "places": [[self._digest(place), self._digest(file)] for place, file in _places(payload)],
        }
        self._put(event)

    def _digest(self, text: str) -> str:
        return hashlib.blake2b(text.encode(), key=self._key, digest_size=8).hexdigest() if text else ""

    def _put(self, item: dict[str, Any] | LoggedSearch) -> None:
        try:
            self._queue.put_nowait(item)
        except Full:
            self.metrics.dropped()

    def _write(self) -> None:
        flushed = time.monotonic()
        while True:
            try:
                item = self._queue.get(timeout=_FLUSH_S)
            except Empty:
                item = _IDLE
            if item is None:
                break
            if isinstance(item, LoggedSearch) and self._pools is not None:
                self._careful(partial(self._pools.add, item))
            elif isinstance(item, dict) and self._timeline is not None:
                self._careful(partial(self._timeline.write, item))
            if self._pools is not None and time.monotonic() - flushed > _FLUSH_S:
                flushed = time.monotonic()
                self._careful(self._pools.flush)
        if self._pools is not None:
            self._careful(self._pools.flush)
        if self._timeline is not None:
            self._careful(self._timeline.close)

    def _careful(self, work: Callable[[], object]) -> None:
        """Do the work and ignore errors: a full disk, or a bug here, may cost events only."""
        try:
            work()
        except Exception:
            self.metrics.dropped()
            logger.debug("telemetry could not be written", exc_info=True)


class _Timeline:
    """JSON lines on stderr, or in a file that is rotated when it is full; one old file is kept."""

    def __init__(self, file: Path | None, largest: int) -> None:
        self._file, self._largest = file, largest
        self._open: TextIO | None = None

    def write(self, event: dict[str, Any]) -> None:
        """Write one line.

        Args:
            event: Fields of the line.

        Raises:
            OSError: The line cannot be written.
        """
        # ASCII, so that no line break or control character of a query can look like the end of a line.
        line = json.dumps(event, ensure_ascii=True, separators=(",", ":")) + "\n"
        if self._file is None:
            sys.stderr.write(line)
            return
        if self._open is None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._open = self._file.open("a", encoding="ascii")
        self._open.write(line)
        self._open.flush()
        if self._open.tell() >= self._largest:
            self._open.close()
            self._open = None
            self._file.replace(self._file.with_suffix(".1.jsonl"))

    def close(self) -> None:
        """Close the file."""
        if self._open is not None:
            self._open.close()


def _places(payload: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (id, URL of the file) of what an answer gives."""
    items = [payload, *(payload.get("results") or ()), *(payload.get("objects") or ())]
    given = [one for one in items if isinstance(one, dict) and one.get("id") and "error" not in one]
    return [(str(one["id"]), str(one.get("url", "")).partition("#")[0]) for one in given[:_MOST_PLACES]]


def _now() -> float:
    return round(time.time(), 6)
