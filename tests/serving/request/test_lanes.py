"""Few calls compute at a time, and none waits for one that takes long."""

from __future__ import annotations

import threading
import time

import pytest

from codequarry.serving.request import lanes
from codequarry.serving.request.lanes import Lanes


class Computing:
    """A thread in a lane, for as long as it is told."""

    def __init__(self, shared: Lanes) -> None:
        self.entered, self._over = threading.Event(), threading.Event()
        self._lanes = shared
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._lanes.lane():
            self.entered.set()
            self._over.wait(20)

    def end(self) -> None:
        self._over.set()
        self._thread.join()


def test_the_next_begins_when_one_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "PATIENCE_S", 1e6)
    shared = Lanes(2)
    first, second = Computing(shared), Computing(shared)
    assert first.entered.wait(20)
    assert second.entered.wait(20)
    third = Computing(shared)
    assert not third.entered.wait(0.05)
    first.end()
    assert third.entered.wait(20)
    second.end()
    third.end()


def test_nobody_waits_for_long_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "PATIENCE_S", 0.01)
    shared = Lanes(1)
    everybody = [Computing(shared) for _ in range(4)]
    assert all(one.entered.wait(20) for one in everybody)
    for one in everybody:
        one.end()


def test_what_fails_leaves_its_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "PATIENCE_S", 1e6)
    shared = Lanes(1)
    with pytest.raises(ZeroDivisionError), shared.lane():
        raise ZeroDivisionError
    with shared.lane():
        pass


def test_the_time_left_is_that_of_the_oldest_that_has_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    shared = Lanes(2)
    shared._since = {"a": 99.91, "b": 99.95, "c": 50.0}
    assert shared._wait_s() == pytest.approx(0.01)
    shared._since = {"a": 99.95, "c": 50.0}
    assert shared._wait_s() == 0.0
    shared._since = {"a": 99.91, "b": 99.95, "d": 99.99}
    assert shared._wait_s() == pytest.approx(0.05)
