"""Late interaction on one core: recall against exact MaxSim, time, memory, growth; beside maxsim-cpu where installed.

``python -m benchmarks.indexes.late_interaction`` measures on chunks of installed packages, ``… growth`` on parts of
them, ``… million`` on a synthetic index of a million chunks (40 GB of disk), ``… others`` compares with xtr-warp-rs and
fast-plaid (`late_interaction_others`). Times are CPU milliseconds of the process, which keeps to one core; so does all
it is compared with.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from benchmarks.corpus import HOME
from benchmarks.indexes.late_interaction_corpus import TokenCorpus, load
from benchmarks.indexes.late_interaction_growth import CHART, HEAD, chart, measured, row, synthetic
from benchmarks.indexes.late_interaction_others import Way, compare
from benchmarks.report import Figure, at_least, at_most, percentile, print_figures
from codequarry.pipelines.indexes.warp.build import WarpPlan, build_index
from codequarry.schemas.bundle.warp import Profile, WarpSpec
from codequarry.serving.channels.warp.index import WarpIndex
from codequarry.serving.channels.warp.search import Searcher

Ranked = list[np.ndarray]
"""The best hundred documents of each query, best first."""
_DEEP = 100


def run() -> None:
    """Measure and print."""
    from codequarry.serving.channels.warp import kernels as warp_kernels

    corpus = load()
    exact, brute = _brute_force(corpus, corpus.queries)
    exact_long, brute_long = _brute_force(corpus, corpus.long_queries)
    count, tokens = len(corpus.chunk_ids), int(corpus.offsets[-1])
    figures = [
        Figure("chunks, token vectors", f"{count:,}, {tokens:,}"),
        Figure("query tokens, mean", f"{np.mean([len(query) for query in corpus.queries]):.1f}, long ones 32"),
        Figure(
            "exact MaxSim over all tokens: p50",
            f"{percentile(brute, 0.5):.0f} ms, long {percentile(brute_long, 0.5):.0f} ms",
        ),
    ]
    for profile in ("standard", "compact"):
        with _built(corpus, profile) as (folder, spec, seconds):
            figures.append(Figure(f"{profile}: build", f"{seconds:.1f} CPU s"))
            figures += _sizes(folder, spec, profile)
            searcher = Searcher(_opened(folder, corpus, figures, profile), warp_kernels)
            figures += _searches(searcher, corpus.queries, exact, profile, "")
            figures += _searches(searcher, corpus.long_queries, exact_long, profile, ", 32 query tokens")
            if profile == "standard":
                figures += _others(corpus, searcher, exact)
    print_figures("Late interaction, one core", figures)
    growth(corpus)


def _searches(searcher: Searcher, queries: list[np.ndarray], exact: Ranked, profile: str, kind: str) -> list[Figure]:
    main = profile == "standard"
    found, times = _timed(lambda query: searcher.wide(searcher.prepare(query), _DEEP).documents, queries)
    figures = [
        _aimed(main, at_most, f"{profile}: wide{kind}: p50", percentile(times, 0.5), 15, "ms"),
        _aimed(main, at_most, f"{profile}: wide{kind}: p95", percentile(times, 0.95), 30, "ms"),
        _aimed(main and not kind, at_least, f"{profile}: wide{kind}: R@10", _recall(found, exact, 10), 0.98, ""),
        _aimed(main and not kind, at_least, f"{profile}: wide{kind}: R@100", _recall(found, exact, 100), 0.92, ""),
    ]
    candidates = _stage_one(searcher, queries, exact)
    turns = iter([*candidates, *candidates])

    def rescore(query: np.ndarray) -> np.ndarray:
        chosen = next(turns)
        return chosen[np.argsort(-searcher.rescore(searcher.prepare(query), chosen), kind="stable")]

    found, times = _timed(rescore, queries)
    figures += [
        _aimed(main, at_most, f"{profile}: rescore of 500{kind}: p50", percentile(times, 0.5), 15, "ms"),
        _aimed(
            main and not kind, at_least, f"{profile}: rescore of 500{kind}: R@10", _recall(found, exact, 10), 0.99, ""
        ),
    ]
    found, times = _timed(lambda query: searcher.warp(searcher.prepare(query), _DEEP, nprobe=32).documents, queries)
    figures += [
        Figure(
            f"{profile}: WARP, nprobe 32{kind}: p50 / p95",
            f"{percentile(times, 0.5):.1f} / {percentile(times, 0.95):.1f} ms",
        ),
        _aimed(
            main and not kind, at_least, f"{profile}: WARP, nprobe 32{kind}: R@10", _recall(found, exact, 10), 0.85, ""
        ),
        Figure(f"{profile}: WARP, nprobe 32{kind}: R@100", f"{_recall(found, exact, 100):.3f}"),
    ]
    return figures


def _aimed(aimed: bool, figure: Callable[..., Figure], name: str, value: float, limit: float, unit: str) -> Figure:
    """With its aim where one was promised."""
    made = figure(name, value, limit, unit, 1 if unit else 3)
    return made if aimed else Figure(made.name, made.value)


def _stage_one(searcher: Searcher, queries: list[np.ndarray], exact: Ranked) -> Ranked:
    """500 candidates of each query, as another index would give: the exact best hundred, and others."""
    random = np.random.default_rng(0)
    candidates: Ranked = []
    for best in exact[: len(queries)]:
        others = random.permutation(searcher.index.spec.documents)
        others = others[~np.isin(others, best)][: 500 - len(best)]
        candidates.append(np.sort(np.concatenate([best, others])))
    return candidates


def _brute_force(corpus: TokenCorpus, queries: list[np.ndarray]) -> tuple[Ranked, list[float]]:
    """The exact order by the float vectors, and CPU milliseconds of each query."""
    vectors = corpus.vectors.astype(np.float32)
    starts = corpus.offsets[:-1]

    def score(query: np.ndarray) -> np.ndarray:
        scores = np.maximum.reduceat(vectors @ query.T, starts, axis=0).sum(axis=1)
        return np.argsort(-scores, kind="stable")[:_DEEP]

    found: Ranked = []
    times: list[float] = []
    for query in queries:
        started = time.process_time()
        found.append(score(query))
        times.append(1000 * (time.process_time() - started))
    return found, times


def _timed(ask: Callable[[np.ndarray], np.ndarray], queries: list[np.ndarray]) -> tuple[Ranked, list[float]]:
    """Answers, and CPU milliseconds of each; after one unmeasured round."""
    for query in queries:
        ask(query)
    found: Ranked = []
    times: list[float] = []
    gc.disable()
    for query in queries:
        started = time.process_time()
        found.append(ask(query))
        times.append(1000 * (time.process_time() - started))
    gc.enable()
    return found, times


def _recall(found: Ranked, exact: Ranked, depth: int) -> float:
    shares = [
        len(set(a[:depth].tolist()) & set(b[:depth].tolist())) / min(depth, len(b))
        for a, b in zip(found, exact, strict=True)
    ]
    return float(np.mean(shares))


class _built:
    """An index of a corpus in a folder of its own: (folder, spec, CPU seconds)."""

    def __init__(self, corpus: TokenCorpus, profile: str) -> None:
        self._corpus, self._profile = corpus, profile
        HOME.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="warp-", dir=HOME))

    def __enter__(self) -> tuple[Path, WarpSpec, float]:
        corpus = self._corpus
        documents = ((int(one), corpus.codes(row)) for row, one in enumerate(corpus.chunk_ids.tolist()))
        encoder = corpus.encoder.spec.fingerprint
        started = time.process_time()
        spec = build_index(
            self._folder, documents, WarpPlan(corpus.encoder.scales, encoder, profile=cast("Profile", self._profile))
        )
        return self._folder, spec, time.process_time() - started

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder)


def _opened(folder: Path, corpus: TokenCorpus, figures: list[Figure], profile: str) -> WarpIndex:
    gc.collect()
    before = _resident()
    started = time.perf_counter()
    index = WarpIndex.open(folder, corpus.encoder.scales)
    elapsed = 1000 * (time.perf_counter() - started)
    figures.append(at_most(f"{profile}: opening", elapsed, 50, "ms"))
    figures.append(at_most(f"{profile}: growth of memory by opening", _resident() - before, 60, "MB"))
    return index


def _sizes(folder: Path, spec: WarpSpec, profile: str) -> list[Figure]:
    size = sum(file.stat().st_size for file in folder.iterdir())
    limit = 200 if profile == "standard" else 72
    return [at_most(f"{profile}: bytes a token ({spec.centroids:,} clusters)", size / spec.tokens, limit, "B")]


def _resident() -> float:
    """MB of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def _others(corpus: TokenCorpus, searcher: Searcher, exact: Ranked) -> list[Figure]:
    """maxsim-cpu over the same candidates, where it is installed."""
    if importlib.util.find_spec("maxsim_cpu") is None:
        return [Figure("maxsim-cpu, rescore of 500 from float32 in memory", "not installed: pip install maxsim-cpu")]
    import maxsim_cpu  # pyright: ignore[reportMissingImports]

    candidates = iter([*_stage_one(searcher, corpus.queries, exact)] * 2)
    held = [
        np.asarray(corpus.vectors[corpus.offsets[row] : corpus.offsets[row + 1]], np.float32)
        for row in range(len(corpus.chunk_ids))
    ]

    def rescore(query: np.ndarray) -> np.ndarray:
        chosen = next(candidates)
        scores = maxsim_cpu.maxsim_scores_variable(query, [held[one] for one in chosen.tolist()])
        return chosen[np.argsort(-np.asarray(scores), kind="stable")]

    found, times = _timed(rescore, corpus.queries)
    return [
        Figure("maxsim-cpu, rescore of 500 from float32 in memory: p50", f"{percentile(times, 0.5):.1f} ms"),
        Figure("maxsim-cpu, rescore of 500: R@10", f"{_recall(found, exact, 10):.3f}"),
    ]


def others(documents: int = 5_000) -> None:
    """Compare with other libraries on a part of the corpus: they take minutes for it."""
    from codequarry.serving.channels.warp import kernels as warp_kernels

    part = load().first(documents)
    exact, brute = _brute_force(part, part.queries)
    ours: list[Way] = []
    with _built(part, "standard") as (folder, spec, seconds):
        searcher = Searcher(WarpIndex.open(folder, part.encoder.scales), warp_kernels)
        size = sum(file.stat().st_size for file in folder.iterdir()) / spec.tokens

        def measure(what: str, ask: Callable[[np.ndarray], np.ndarray]) -> None:
            found, times = _timed(ask, part.queries)
            ours.append((what, percentile(times, 0.5), _recall(found, exact, 10), _recall(found, exact, 100)))

        for nprobe in (4, 8, 16, 32, 64):
            measure(
                f"WARP, nprobe {nprobe}",
                lambda query, nprobe=nprobe: searcher.warp(searcher.prepare(query), _DEEP, nprobe=nprobe).documents,
            )
        for nprobe, candidates in ((4, 100), (6, 200), (10, 400)):
            measure(
                f"wide, nprobe {nprobe}, {candidates} candidates",
                lambda query, nprobe=nprobe, candidates=candidates: (
                    searcher.wide(searcher.prepare(query), _DEEP, nprobe=nprobe, candidates=candidates).documents
                ),
            )
    title = f"Late interaction beside other libraries, one core, {spec.documents:,} chunks, {spec.tokens:,} tokens"
    said = Figure("exact MaxSim over all tokens: p50", f"{percentile(brute, 0.5):.0f} ms")
    against = compare(part, lambda found, depth: _recall(found, exact, depth), ours, seconds, size)
    print_figures(title, [said, *against])


def growth(corpus: TokenCorpus) -> None:
    """Time, size and memory against the number of chunks, as a table and as a chart in the documentation."""
    print(f"\n{HEAD}")
    found: list[dict[str, Any]] = []
    for documents in (1_000, 3_000, 10_000, len(corpus.chunk_ids)):
        part = corpus.first(documents)
        chunks = ((int(one), part.codes(place)) for place, one in enumerate(part.chunk_ids.tolist()))
        found.append(measured(chunks, part.encoder.scales, part.queries, "standard"))
        print(row(found[-1]), flush=True)
    CHART.write_text(chart(found), encoding="utf-8")


if __name__ == "__main__":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if "million" in sys.argv:
        synthetic(*map(int, sys.argv[2:]))
    elif "growth" in sys.argv:
        growth(load())
    elif "others" in sys.argv:
        others()
    else:
        run()
