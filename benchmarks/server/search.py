"""Search inside the process, on one core: hybrid, its channels alone, and the query encoder, side by side."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.corpus import HOME, LARGE, PACKAGES, index
from benchmarks.quality.misspelt import slips_of
from benchmarks.quality.ranking_parts import without_near_names
from benchmarks.report import Figure, at_most, percentile, print_figures
from codequarry.pipelines.measure.name_questions import is_telling_name
from codequarry.schemas.bundle.layout import BundleRoot
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchFilters, SearchRequest
from codequarry.serving.catalog.chunk_arrays import RowIndex
from codequarry.serving.encoders.spec import open_encoder
from codequarry.serving.engine.engine import Engine

QUERIES = (
    "how are tools registered on the server",
    "StreamableHTTPSessionManager",
    "parse the authorization header of a request",
    "where is the json schema of a function's parameters built",
    "oauth token refresh",
    "TypeError: object is not callable",
    "read resource templates",
    "session_id",
    "middleware that limits the rate of requests",
    "convert camelCase to snake_case",
    "client disconnects while a request is running",
    "static files with etag",
)
ROUNDS = 20


def run() -> None:
    """Measure and print, over 5,000 chunks and over 20,000."""
    for home, packages, aims in (("reindex", PACKAGES, (10, 25)), ("large", LARGE, (12, 30))):
        root, _, _ = index(HOME / home, packages=packages)
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})
        _measure(root, *aims)
        os.sched_setaffinity(0, cores)


def _measure(root: Path, p50_ms: float, p95_ms: float) -> None:
    Engine.open(root, ServingSettings()).close()  # imports the libraries
    started = time.perf_counter()
    engine = Engine.open(root, ServingSettings())
    opened = 1000 * (time.perf_counter() - started)
    chunks = len(engine.bundle.directory.chunk_ids)
    encoder = open_encoder(BundleRoot(root).version(engine.bundle.manifest.version).encoder)
    filters = SearchFilters(lang=["python"], include=["**/server/**"])
    hybrid = _timed(lambda query: engine.search(SearchRequest(query=query)))
    encoding = _timed(encoder.encode_query)
    slips = _misspelt(engine)
    looked_for = _timed(lambda query: engine.search(SearchRequest(query=query)), slips)
    index = engine.bundle.catalog.index
    without_near_names(engine)
    not_looked_for = _timed(lambda query: engine.search(SearchRequest(query=query)), slips)
    engine.bundle.catalog.index = index
    rows = {
        "search, hybrid, misspelt names": looked_for,
        "search, hybrid, misspelt names that are not looked for": not_looked_for,
        "search, hybrid, filtered": _timed(lambda query: engine.search(SearchRequest(query=query, filters=filters))),
        "search, faiss": _timed(lambda query: engine.search(SearchRequest(query=query, channel="faiss"))),
        "search, bm25": _timed(lambda query: engine.search(SearchRequest(query=query, channel="bm25"))),
    }
    engine.close()
    figures = [
        at_most("opening the bundle, libraries imported", opened, 100, "ms"),
        at_most("search, hybrid: p50", percentile(hybrid, 0.5), p50_ms, "ms"),
        at_most("search, hybrid: p95", percentile(hybrid, 0.95), p95_ms, "ms"),
        *(
            Figure(f"{name}: p50 / p95", f"{percentile(times, 0.5):.1f} / {percentile(times, 0.95):.1f} ms")
            for name, times in rows.items()
        ),
        Figure("query encoding: p50 / p95", f"{percentile(encoding, 0.5):.3f} / {percentile(encoding, 0.95):.3f} ms"),
    ]
    title = f"Search in the process, one core, {chunks:,} chunks, {len(QUERIES) * ROUNDS} queries"
    print_figures(title, figures)


def _misspelt(engine: Engine) -> list[str]:
    """Return as many names of definitions as there are queries, each with a slip of the keys."""
    index = engine.bundle.catalog.index
    assert isinstance(index, RowIndex)
    names = sorted({index.texts[name] for name in np.unique(index.definitions[1]).tolist()})
    draw = random.Random(0)
    drawn = draw.sample([name for name in names if is_telling_name(name)], len(QUERIES))
    return [list(slips_of(name, draw).values())[at % 4] for at, name in enumerate(drawn)]


def _timed(call: Callable[[str], object], queries: Sequence[str] = QUERIES) -> list[float]:
    """Milliseconds of every call, after one unmeasured round."""
    for query in queries:
        call(query)
    times: list[float] = []
    for _ in range(ROUNDS):
        for query in queries:
            started = time.perf_counter()
            call(query)
            times.append(1000 * (time.perf_counter() - started))
    return times


if __name__ == "__main__":
    run()
