"""Trace of one request for measurements: stage times, candidates, and channels that were left out.

The search code reports events and does not know the listener. Without a listener, each call here costs a context
look-up.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np


@dataclass(slots=True)
class Trace:
    """Measurements of one request."""

    run_id: str
    tool: str
    version: str = ""
    """The bundle version that answered."""
    query: str = ""
    stages: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Seconds by stage; a stage that ran more than once counts together."""
    pools: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    """Candidates of each channel, best first: chunk ids (m,) int64 and scores (m,) float32."""
    degraded: list[str] = field(default_factory=list)
    """Channels that could not contribute."""
    gates: list[tuple[str, str]] = field(default_factory=list)
    """Decisions whether to run a costly stage: (gate, decision)."""
    density: float = -1.0
    """Share of the chunks that the filters let through; -1 when nothing was filtered."""

    def summary(self) -> dict[str, object]:
        """Return what ``_meta`` of the answer tells: the run, milliseconds by stage, and what was decided."""
        return {
            "run_id": self.run_id,
            "stages_ms": {name: round(seconds * 1000, 2) for name, seconds in self.stages.items()},
            "decisions": dict(self.gates),
        }


_TRACE: ContextVar[Trace | None] = ContextVar("codequarry_trace", default=None)


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """Record events of the block, in this thread and those started with its context."""
    token = _TRACE.set(trace)
    try:
        yield trace
    finally:
        _TRACE.reset(token)


@contextmanager
def tracing_call(tool: str, query: str) -> Iterator[Trace]:
    """Record events of the block in the trace of the context, or else in a new one.

    Args:
        tool: Name of the tool.
        query: What is asked for; "" for tools without one.

    Yields:
        The trace.
    """
    if (trace := _TRACE.get()) is not None:
        yield trace
        return
    with tracing(Trace(new_run_id(), tool, query=query)) as trace:
        yield trace


def new_run_id() -> str:
    """Return an id for a request: 16 hexadecimal digits."""
    return os.urandom(8).hex()


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Time the block as a stage."""
    trace = _TRACE.get()
    if trace is None:
        yield
        return
    started = time.perf_counter()
    try:
        yield
    finally:
        trace.stages[name] += time.perf_counter() - started


def saw_version(version: str) -> None:
    """Record the bundle version that answers."""
    if (trace := _TRACE.get()) is not None:
        trace.version = version


def saw_candidates(channel: str, chunk_ids: np.ndarray, scores: np.ndarray) -> None:
    """Record the candidates of a channel: (m,) int64 and (m,) float32, best first."""
    if (trace := _TRACE.get()) is not None:
        trace.pools[channel] = (chunk_ids, scores)


def saw_degraded(channel: str) -> None:
    """Record that a channel could not contribute."""
    if (trace := _TRACE.get()) is not None:
        trace.degraded.append(channel)


def saw_gate(gate: str, decision: str) -> None:
    """Record the decision of a gate, e.g. ("warp", "margin")."""
    if (trace := _TRACE.get()) is not None:
        trace.gates.append((gate, decision))


def saw_density(kept: int, total: int) -> None:
    """Record the number of chunks that the filters let through."""
    if (trace := _TRACE.get()) is not None and total:
        trace.density = kept / total
