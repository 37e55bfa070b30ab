"""Growth of late interaction: time and memory against the number of tokens, of real chunks and of synthetic ones.

``python -m benchmarks.indexes.late_interaction growth`` measures parts of the corpus, ``… million [CHUNKS [TOKENS]]``
synthetic indexes in the compact profile: of a hundredth and a tenth of that many chunks and of all, the last stage by
stage.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpus import HOME
from benchmarks.growth_chart import curves
from benchmarks.report import Figure, percentile, print_figures
from codequarry.pipelines.indexes.warp.build import WarpPlan, build_index
from codequarry.schemas.bundle.warp import Profile, WarpSpec
from codequarry.serving.channels.warp.index import WarpIndex
from codequarry.serving.channels.warp.search import Searcher

_DOCS = Path(__file__).resolve().parents[2] / "docs"
CHART = _DOCS / "late_interaction_growth.svg"
_SYNTHETIC_CHART = _DOCS / "late_interaction_synthetic.svg"
_DEEP = 100
_QUERIES = 50
Documents = Iterable[tuple[int, np.ndarray]]


class Stages:
    """CPU seconds of a build by stage; a progress callback, and a pass-through of its documents."""

    def __init__(self) -> None:
        self.seconds = {"writing codes": 0.0, "clusters and codec": 0.0, "assigning": 0.0, "postings": 0.0}
        self._last = time.process_time()

    def documents(self, documents: Documents) -> Iterator[tuple[int, np.ndarray]]:
        """The same documents; what making them takes counts for nothing."""
        for document in documents:
            self._last = time.process_time()
            yield document
            self._to("writing codes")

    def progress(self, what: str, done: int, total: int) -> None:
        """See `Progress`."""
        if what == "warp: assigning tokens":
            first = self.seconds["clusters and codec"] == 0
            self._to("clusters and codec" if first else "assigning")
        elif what == "warp: writing postings":
            self._to("postings")

    def _to(self, stage: str) -> None:
        now = time.process_time()
        self.seconds[stage] += now - self._last
        self._last = now


def measured(
    documents: Documents, scales: np.ndarray, queries: list[np.ndarray], profile: Profile, fingerprint: str = "0" * 64
) -> dict[str, Any]:
    """Build, open and search an index in a folder of its own; figures by name."""
    from codequarry.serving.channels.warp import kernels as warp_kernels

    folder = Path(tempfile.mkdtemp(prefix="warp-growth-", dir=HOME))
    try:
        stages = Stages()
        _forget_peak()
        before = memory("VmRSS")
        spec = build_index(
            folder, stages.documents(documents), WarpPlan(scales, fingerprint, profile=profile), stages.progress
        )
        peak = memory("VmHWM") - before
        started = time.perf_counter()
        searcher = Searcher(WarpIndex.open(folder, scales), warp_kernels)
        opened = 1000 * (time.perf_counter() - started)
        wide = _times(lambda query: searcher.wide(searcher.prepare(query), _DEEP), queries)
        pure = _times(lambda query: searcher.warp(searcher.prepare(query), _DEEP), queries)
        return {
            "spec": spec, "stages": stages.seconds, "build": sum(stages.seconds.values()), "peak": peak,
            "size": sum(file.stat().st_size for file in folder.iterdir()), "open": opened,
            "wide": wide, "warp": pure,
        }  # fmt: skip
    finally:
        shutil.rmtree(folder)


HEAD = (
    "| chunks | tokens | build CPU s | peak of the build MB | bytes a token | open ms | wide p50 / p95 ms | "
    "WARP nprobe 32 p50 ms |\n|---|---|---|---|---|---|---|---|"
)


def row(found: dict[str, Any]) -> str:
    """A line of the table."""
    spec: WarpSpec = found["spec"]
    return (
        f"| {spec.documents:,} {spec.profile} | {spec.tokens:,} | {found['build']:.1f} | {found['peak']:.0f} | "
        f"{found['size'] / spec.tokens:.1f} | {found['open']:.1f} | {percentile(found['wide'], 0.5):.1f} / "
        f"{percentile(found['wide'], 0.95):.1f} | {percentile(found['warp'], 0.5):.1f} |"
    )


def chart(found: list[dict[str, Any]], of: str = "") -> str:
    """The same as curves over the number of tokens. of: what was indexed."""

    def over_tokens(value: Callable[[dict[str, Any]], float]) -> list[tuple[float, float]]:
        return [(one["spec"].tokens, value(one)) for one in found]

    return curves(
        f"Late interaction by size, one core{of and f', {of}'}",
        "tokens of the index",
        {
            "build, CPU s": over_tokens(lambda one: one["build"]),
            "wide p50, CPU ms": over_tokens(lambda one: percentile(one["wide"], 0.5)),
            "index, MB": over_tokens(lambda one: one["size"] / 1e6),
            "peak of the build, MB": over_tokens(lambda one: one["peak"]),
        },
    )


def synthetic(documents: int = 1_000_000, size: int = 200) -> None:
    """Synthetic indexes in the compact profile, drawn, and the largest stage by stage.

    documents: chunks of the largest. size: tokens of a chunk in the mean.
    """
    dim = 128
    scales = np.full(dim, 0.45 / 127, np.float32)
    queries = [next(_synthetic(1, 200, dim, scales, seed))[1][:16] * scales for seed in range(_QUERIES)]
    print(f"\n{HEAD}")
    found: list[dict[str, Any]] = []
    for count in (documents // 100, documents // 10, documents):
        found.append(measured(_synthetic(count, size, dim, scales), scales, queries, "compact"))
        print(row(found[-1]), flush=True)
    _SYNTHETIC_CHART.write_text(chart(found, "synthetic vectors"), encoding="utf-8")
    largest: WarpSpec = found[-1]["spec"]
    print_figures(
        f"A synthetic index, {largest.centroids:,} clusters, microseconds of CPU a token",
        [Figure(stage, f"{1e6 * spent / largest.tokens:.2f} µs") for stage, spent in found[-1]["stages"].items()],
    )


def memory(field: str) -> float:
    """MB of this process by a field of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1]) / 1000


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _times(ask: Any, queries: list[np.ndarray]) -> list[float]:
    for query in queries:
        ask(query)
    times: list[float] = []
    for query in queries:
        started = time.process_time()
        ask(query)
        times.append(1000 * (time.process_time() - started))
    return times


def _synthetic(
    documents: int, mean: int, dim: int, scales: np.ndarray, seed: int = 0
) -> Iterator[tuple[int, np.ndarray]]:
    """Chunks of half to one and a half of that many tokens around 50,000 directions, common ones more often."""
    directions = np.random.default_rng(1).standard_normal((50_000, dim)).astype(np.float32)
    random = np.random.default_rng(seed + 2)
    for number in range(documents):
        size = int(random.integers(mean // 2, mean * 3 // 2 + 1))
        topics = (50_000 * random.random(size) ** 3).astype(np.int64)
        vectors = directions[topics] + 0.7 * random.standard_normal((size, dim), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        yield number + 1, np.clip(np.rint(vectors / scales), -127, 127).astype(np.int8)
