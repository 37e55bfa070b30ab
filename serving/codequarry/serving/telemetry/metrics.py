"""Prometheus metrics of the service, in a registry of their own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from codequarry.serving.request.trace import Trace

CONTENT_TYPE = CONTENT_TYPE_LATEST

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
_SHARES = (0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
_NAMED_STAGES = {"faiss_ann": "faiss_ann_latency_seconds", "faiss_refine": "faiss_refine_latency_seconds"}
_NAMED_TOOLS = {"search": "mcp_search_latency_seconds", "fetch": "mcp_fetch_latency_seconds"}


class Metrics:
    """Histograms and counters. Safe to share between threads."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._stages = {
            stage: Histogram(name, f"Seconds of {stage}.", buckets=_SECONDS, registry=self.registry)
            for stage, name in _NAMED_STAGES.items()
        }
        self._searches = {
            tool: Histogram(name, f"Seconds of {tool}.", buckets=_SECONDS, registry=self.registry)
            for tool, name in _NAMED_TOOLS.items()
        }
        self._stage = Histogram(
            "mcp_stage_latency_seconds", "Seconds of a stage.", ["stage"], buckets=_SECONDS, registry=self.registry
        )
        self._tool = Histogram(
            "mcp_tool_latency_seconds", "Seconds of a tool.", ["tool"], buckets=_SECONDS, registry=self.registry
        )
        self._density = Histogram(
            "mcp_search_postfilter_density",
            "Share of the chunks that a request's filters let through.",
            buckets=_SHARES,
            registry=self.registry,
        )
        self._degraded = Counter(
            "mcp_degradations", "Channels that could not contribute to an answer.", ["channel"], registry=self.registry
        )
        self._gates = Counter("mcp_gate_decisions", "What gates decided.", ["gate", "decision"], registry=self.registry)
        self._rejected = Counter(
            "mcp_rejections", "Calls that ended in an error.", ["tool", "code"], registry=self.registry
        )
        self._dropped = Counter(
            "mcp_telemetry_dropped", "Events that the telemetry's queue had no room for.", registry=self.registry
        )

    def finished(self, trace: Trace, seconds: float) -> None:
        """Count a request that ran, however it ended."""
        self._tool.labels(trace.tool).observe(seconds)
        if trace.tool in self._searches:
            self._searches[trace.tool].observe(seconds)
        for stage, took in trace.stages.items():
            self._stage.labels(stage).observe(took)
            if stage in self._stages:
                self._stages[stage].observe(took)
        for channel in set(trace.degraded):
            self._degraded.labels(channel).inc()
        for gate, decision in trace.gates:
            self._gates.labels(gate, decision).inc()
        if trace.density >= 0:
            self._density.observe(trace.density)

    def admission(self, decision: str) -> None:
        """Count a decision of admission control: admitted or busy."""
        self._gates.labels("admission", decision).inc()

    def rejected(self, tool: str, code: str) -> None:
        """Count a call that ended in an error."""
        self._rejected.labels(tool, code).inc()

    def dropped(self) -> None:
        """Count an event that was not written."""
        self._dropped.inc()

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self.registry)
