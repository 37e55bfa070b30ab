"""Following CURRENT: what a search waits for while a version is opened beside the served one, and what stays behind."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import threading
import time
from pathlib import Path

from benchmarks.corpus import HOME, index
from benchmarks.report import Figure, at_least, at_most, percentile, print_figures
from benchmarks.server.search import QUERIES
from codequarry.schemas.bundle.layout import BundleRoot, Current
from codequarry.schemas.bundle.manifest import to_json
from codequarry.schemas.errors import CodequarryError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.files.integrity import read_manifest, verify

FLIPS = 100


def run() -> None:
    """Measure and print."""
    indexed, _, _ = index(HOME / "reindex")
    root = HOME / "flips"
    currents = _twins(indexed, root)
    engine = Engine.open(root, ServingSettings(follow_interval_s=0.05))
    reader = _Reader(engine)
    reader.start()
    while len(reader.times) < 20 * len(QUERIES):
        time.sleep(0.05)
    quiet = [took for _, took in reader.times[len(QUERIES) :]]
    followed: list[float] = []
    during: list[float] = []
    resident: list[float] = []
    for number in range(FLIPS):
        began = time.perf_counter()
        _flip(root, currents[number % 2])
        while engine.bundle.current != currents[number % 2]:
            time.sleep(0.005)
        ended = time.perf_counter()
        followed.append(1000 * (ended - began))
        time.sleep(0.1)  # for the last search that began before the flip, and for closing the old version
        during += [took for at, took in reader.times if began <= at + took / 1000 and at <= ended]
        resident.append(_resident_mb())
    reader.stop()
    engine.close()
    size, seconds = _deep(root)
    print_figures(
        f"Following CURRENT, {FLIPS} flips under a reader",
        [
            _pair("search, no flip", quiet),
            _pair("search while a version is opened and swapped in", during),
            at_most("added at a flip: p99 - p99", percentile(during, 0.99) - percentile(quiet, 0.99), 50, "ms"),
            at_most(f"searches that failed, of {len(reader.times):,}", len(reader.errors), 0, "", 0),
            Figure("from the flip to the new version being served: p50", f"{percentile(followed, 0.5):.0f} ms"),
            at_most("growth of resident memory, flips 10-30 to the last 20", _growth(resident), 20, "MB"),
            at_least(f"deep verification of {size / 1e6:.0f} MB, one core", size / seconds / 1e6, 500, "MB/s", 0),
        ],
    )


class _Reader(threading.Thread):
    """Searches all the time, with a breath between."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine
        self._stopped = threading.Event()
        self.times: list[tuple[float, float]] = []
        """(start in seconds, duration in milliseconds) of each search."""
        self.errors: list[CodequarryError] = []

    def run(self) -> None:
        for query in itertools.cycle(QUERIES):
            if self._stopped.wait(0.005):
                return
            started = time.perf_counter()
            try:
                self._engine.search(SearchRequest(query=query))
            except CodequarryError as error:
                self.errors.append(error)
            self.times.append((started, 1000 * (time.perf_counter() - started)))

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def _twins(indexed: Path, root: Path) -> tuple[Current, Current]:
    """A root with the indexed version under two names; the second shares no file with the first."""
    shutil.rmtree(root, ignore_errors=True)
    source = BundleRoot(indexed).version(BundleRoot(indexed).read_current().version)
    manifest = read_manifest(source)
    currents: list[Current] = []
    for name in ("20260101T000000Z-00000000", "20260102T000000Z-00000000"):
        twin = BundleRoot(root).version(name)
        shutil.copytree(source.path, twin.path)
        data = to_json(manifest.model_copy(update={"version": name}))
        twin.manifest.write_bytes(data)
        currents.append(Current(name, hashlib.sha256(data).hexdigest()))
    _flip(root, currents[1])
    return currents[0], currents[1]


def _flip(root: Path, current: Current) -> None:
    aside = root / ".CURRENT.new"
    aside.write_text(current.line())
    os.replace(aside, BundleRoot(root).current)


def _pair(name: str, values: list[float]) -> Figure:
    return Figure(f"{name}: p50 / p99", f"{percentile(values, 0.5):.1f} / {percentile(values, 0.99):.1f} ms")


def _growth(resident: list[float]) -> float:
    """Megabytes between the medians of two spans of flips."""
    return percentile(resident[-20:], 0.5) - percentile(resident[10:30], 0.5)


def _resident_mb() -> float:
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


def _deep(root: Path) -> tuple[int, float]:
    """(bytes, CPU seconds) of a deep verification of CURRENT."""
    paths = BundleRoot(root).version(BundleRoot(root).read_current().version)
    manifest = read_manifest(paths)
    started = time.thread_time()
    verify(paths, manifest, deep=True)
    return sum(entry.size_bytes for entry in manifest.files), time.thread_time() - started


if __name__ == "__main__":
    run()
