"""Two versions are timed side by side, by CPU time: a loaded machine stops nobody, and what burns CPU is stopped."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from codequarry.pipelines.gates.answers.comparison import delays
from codequarry.pipelines.gates.answers.latency import NOISE_MS, searching, side_by_side, slowdown
from codequarry.schemas.settings.gates import RetrievalSettings
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.engine.engine import Engine
from tests.serving.bundles.bundle_factory import write_bundle
from tests.serving.bundles.corpus import PIECES

MOST = RetrievalSettings().max_latency_ratio
QUERIES = ["open a session", "index"]


class Working:
    """An engine whose search computes for some milliseconds, and waits for some."""

    def __init__(self, computes_ms: float, waits_ms: float = 0.0) -> None:
        self.computes_ms, self.waits_ms = computes_ms, waits_ms
        self.asked: list[str] = []

    def search(self, request: SearchRequest) -> SimpleNamespace:
        self.asked.append(request.query)
        until = time.thread_time() + self.computes_ms / 1000
        while time.thread_time() < until:
            pass
        time.sleep(self.waits_ms / 1000)
        return SimpleNamespace(results=[])


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory):
    """Two engines over equal versions."""
    opened = []
    for name in ("staged", "current"):
        root = tmp_path_factory.mktemp(name)
        write_bundle(root, PIECES)
        opened.append(Engine.open(root, ServingSettings()))
    yield opened
    for engine in opened:
        engine.close()


def test_equal_versions_take_the_same_time_whatever_else_runs(engines) -> None:
    """To be repeated on a loaded machine; without the floor, so that the ratio alone decides."""
    own, other = engines
    times = searching(own, other, QUERIES, "bm25", MOST, noise_ms=0.01)
    assert min(times) > 0
    assert slowdown(times, 0.01) <= MOST


def test_waiting_is_no_slow_down() -> None:
    """As when the machine gives the processor to somebody else."""
    times = searching(Working(1, waits_ms=15), Working(1), QUERIES, "hybrid", MOST)
    assert slowdown(times) <= MOST
    assert max(times) < NOISE_MS * 2


def test_computing_longer_is_a_slow_down() -> None:
    own, other = Working(5.5 * NOISE_MS / 2), Working(1)
    times = searching(own, other, QUERIES[:1], "hybrid", most=2.0)
    assert slowdown(times) > 2.0
    assert len(own.asked) == len(other.asked) == 15, "what looks slow is measured three times"
    checks = delays((20.0, 10.0), (90.0, 20.0), RetrievalSettings())
    assert [check.name for check in checks if not check.passed] == ["time of a search against CURRENT"]


def test_a_slow_round_or_a_slow_measurement_counts_for_nothing() -> None:
    spikes = iter([900.0] * 2 + [10.0] * 3)
    assert side_by_side(lambda: next(spikes), lambda: 10.0, MOST) == (10.0, 10.0)
    bursts = iter([900.0] * 5 + [10.0] * 5)
    assert side_by_side(lambda: next(bursts), lambda: 10.0, MOST) == (10.0, 10.0)
    assert next(bursts, None) is None
    assert side_by_side(lambda: 900.0, lambda: 10.0, MOST) == (900.0, 10.0)


def test_the_two_take_turns() -> None:
    order: list[str] = []

    def work(name: str) -> float:
        order.append(name)
        return 10.0

    side_by_side(lambda: work("own"), lambda: work("other"), MOST)
    assert order == ["own", "other", "other", "own", "own", "other", "other", "own", "own", "other"]


def test_times_below_the_floor_have_no_ratio() -> None:
    assert slowdown((4.9, 0.1)) == 1.0
    assert slowdown((20.0, 0.1)) == 4.0
    assert slowdown((90.0, 20.0)) == 4.5
