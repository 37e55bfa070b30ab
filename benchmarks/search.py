"""Search inside the process, on one core: hybrid, its channels alone, and the query encoder, side by side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from benchmarks.corpus import HOME, index
from benchmarks.report import Figure, at_most, percentile, print_figures
from codequarry.schemas.encoder import open_encoder
from codequarry.schemas.layout import BundleRoot
from codequarry.schemas.settings import ServingSettings
from codequarry.schemas.tools import SearchFilters, SearchRequest
from codequarry.serving.engine import Engine

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
    """Measure and print."""
    root, _, _ = index(HOME / "reindex")
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    Engine.open(root, ServingSettings()).close()  # imports the libraries
    started = time.perf_counter()
    engine = Engine.open(root, ServingSettings())
    opened = 1000 * (time.perf_counter() - started)
    chunks = len(engine.bundle.directory.chunk_ids)
    encoder = open_encoder(BundleRoot(root).version(engine.bundle.manifest.version).encoder)
    filters = SearchFilters(lang=["python"], include=["**/server/**"])
    hybrid = _timed(lambda query: engine.search(SearchRequest(query=query)))
    encoding = _timed(encoder.encode_query)
    rows = {
        "search, hybrid, filtered": _timed(lambda query: engine.search(SearchRequest(query=query, filters=filters))),
        "search, faiss": _timed(lambda query: engine.search(SearchRequest(query=query, channel="faiss"))),
        "search, bm25": _timed(lambda query: engine.search(SearchRequest(query=query, channel="bm25"))),
        "query encoding": encoding,
    }
    engine.close()
    figures = [
        at_most(f"opening the bundle ({chunks:,} chunks), libraries imported", opened, 100, "ms"),
        at_most("search, hybrid: p50", percentile(hybrid, 0.5), 10, "ms"),
        at_most("search, hybrid: p95", percentile(hybrid, 0.95), 25, "ms"),
        *(
            Figure(f"{name}: p50 / p95", f"{percentile(times, 0.5):.1f} / {percentile(times, 0.95):.1f} ms")
            for name, times in rows.items()
        ),
        Figure("hybrid p50 / encoding p50", f"{percentile(hybrid, 0.5) / percentile(encoding, 0.5):.1f}"),
    ]
    print_figures(f"Search in the process, one core, {len(QUERIES) * ROUNDS} queries", figures)


def _timed(call: Callable[[str], object]) -> list[float]:
    """Milliseconds of every call, after one unmeasured round."""
    for query in QUERIES:
        call(query)
    times: list[float] = []
    for _ in range(ROUNDS):
        for query in QUERIES:
            started = time.perf_counter()
            call(query)
            times.append(1000 * (time.perf_counter() - started))
    return times


if __name__ == "__main__":
    run()
