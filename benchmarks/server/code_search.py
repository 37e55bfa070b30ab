"""Text search inside the process, on one core, at two sizes: every mode, parts of words and whole ones, and memory."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.corpus import HOME, index
from benchmarks.indexing.footprint import CORPORA
from benchmarks.report import Figure, percentile, print_figures
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.grep import CodeSearchRequest, Mode
from codequarry.serving.engine.engine import Engine
from codequarry.serving.version.open import Bundle

PATTERNS: dict[tuple[str, Mode], tuple[str, ...]] = {
    ("exact, with a whole identifier", "exact"): (
        "async def list_tools(self", "raise ToolError(", "import anyio\n", "self._mcp_server.",
        "Content-Type: application/json",
    ),
    ("exact, inside identifiers", "exact"): ("ession_mana", "HTTPExc", "_schem", "onnectio", "nowhereatall"),
    ("word", "word"): ("FastMCP", "StreamableHTTPSessionManager", "timeout", "Router", "nowhere_at_all"),
    ("phrase", "phrase"): ("session manager", "read the resource", "rate limit", "json schema", "access token expires"),
    ("regex, with a whole identifier", "regex"): (
        r"async def call_tool\(\w+", r"raise ToolError\(f?.", r"class \w+\(BaseModel\):", r" import (anyio|json)$",
        r"= TypeVar\(.T.",
    ),
    ("regex, without", "regex"): (
        r"[a-z]+_[0-9]{3}", r"(?i)todo|fixme", r"^\s+except \w+ as \w:", r"x{40}", r"def \w+\(\n",
    ),
}  # fmt: skip
ROUNDS = 10


def run() -> None:
    """Measure and print."""
    roots = [index(HOME / "reindex")[0], index(HOME / "text-search-large", packages=CORPORA["large"])[0]]
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for root in roots:
        _measure(root)


def _measure(root: Path) -> None:
    engine = Engine(Bundle.open_current(root, channels=("bm25",)), ServingSettings())
    before = _resident_mb()
    figures: list[Figure] = []
    for (name, mode), patterns in PATTERNS.items():
        times = [_milliseconds(engine, mode, pattern) for _ in range(ROUNDS) for pattern in patterns]
        value = f"{percentile(times, 0.5):.1f} / {percentile(times, 0.95):.1f} ms"
        figures.append(Figure(f"{name}: p50 / p95", value))
    figures.append(Figure("resident memory after all of them", f"+{_resident_mb() - before:.0f} MB"))
    chunks, files = len(engine.bundle.directory.chunk_ids), len(engine.bundle.directory.paths)
    engine.close()
    print_figures(f"Text search in the process, one core, {chunks:,} chunks of {files:,} files", figures)


def _milliseconds(engine: Engine, mode: Mode, pattern: str) -> float:
    started = time.perf_counter()
    engine.search_code(CodeSearchRequest(pattern=pattern, mode=mode))
    return 1000 * (time.perf_counter() - started)


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    run()
