"""Time that two versions take, side by side.

Time is that of the CPU, so that other work of the machine does not count. The two take turns, and the median of some
rounds counts. A result that looks slow is measured again before it stops a version.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

from codequarry.schemas.bundle.layout import BundlePaths, Current
from codequarry.schemas.wire.search import Channel, SearchRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.version.open import Bundle

NOISE_MS = 5.0
"""Milliseconds below which times count as this: their ratios mean nothing."""
_ROUNDS = 5
_MEASUREMENTS = 3
_QUESTIONS = 12
Times = tuple[float, float]
"""Milliseconds of CPU time of the staged version and of CURRENT."""


def slowdown(times: Times, noise_ms: float = NOISE_MS) -> float:
    """Return the ratio of the staged version's time to the other's."""
    own, other = (max(each, noise_ms) for each in times)
    return own / other


def searching(
    own: Engine, other: Engine, queries: Sequence[str], channel: Channel, most: float, *, noise_ms: float = NOISE_MS
) -> Times:
    """Measure the median time of a search in two versions.

    Args:
        own: Engine over the staged version.
        other: Engine over CURRENT.
        queries: Queries, of which the first dozen are asked.
        channel: Channel to search.
        most: Allowed ratio, see `side_by_side`.
        noise_ms: Shorter times count as this one.

    Returns:
        Milliseconds of both.
    """
    asked = queries[:_QUESTIONS]

    def answered_by(engine: Engine) -> Callable[[], float]:
        def work() -> float:
            return median(_search_ms(engine, query, channel) for query in asked)

        return work

    return side_by_side(answered_by(own), answered_by(other), most, noise_ms=noise_ms)


def opening(own: tuple[BundlePaths, Current], other: tuple[BundlePaths, Current], most: float) -> Times:
    """Measure the CPU time of the thread that opens a version.

    Args:
        own: Staged version, and the line that CURRENT would hold for it.
        other: CURRENT's version, and its line.
        most: Allowed ratio, see `side_by_side`.

    Returns:
        Milliseconds of both.
    """

    def measure_opening(paths: BundlePaths, current: Current) -> Callable[[], float]:
        def work() -> float:
            started = time.thread_time()
            bundle = Bundle.open_paths(paths, current)
            spent = 1000 * (time.thread_time() - started)
            bundle.close()
            return spent

        return work

    return side_by_side(measure_opening(*own), measure_opening(*other), most)


def side_by_side(
    own: Callable[[], float], other: Callable[[], float], most: float, *, noise_ms: float = NOISE_MS
) -> Times:
    """Measure two versions in turns, and return the times of the round with the median ratio.

    Args:
        own: Does the work once with the staged version and returns its milliseconds.
        other: Does the same with the other version.
        most: Allowed ratio. Above it everything is measured again, up to twice, and the best measurement counts.
        noise_ms: Shorter times count as this one.

    Returns:
        Milliseconds of both.
    """
    measurements: list[Times] = []
    while len(measurements) < _MEASUREMENTS:
        rounds = sorted((_round(own, other, turn) for turn in range(_ROUNDS)), key=lambda one: slowdown(one, noise_ms))
        measurements.append(rounds[_ROUNDS // 2])
        if slowdown(measurements[-1], noise_ms) <= most:
            break
    return min(measurements, key=lambda one: slowdown(one, noise_ms))


def _round(own: Callable[[], float], other: Callable[[], float], turn: int) -> Times:
    """Measure both versions; the order alternates between rounds."""
    if turn % 2:
        second = other()
        return own(), second
    return own(), other()


def _search_ms(engine: Engine, query: str, channel: Channel) -> float:
    # Of all threads: FAISS and ONNX Runtime compute in threads of their own.
    started = time.process_time()
    engine.search(SearchRequest(query=query, top_k=20, channel=channel))
    return 1000 * (time.process_time() - started)
