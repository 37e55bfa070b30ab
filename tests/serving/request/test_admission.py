from __future__ import annotations

import asyncio
import threading
import time

import pytest

from codequarry.schemas.errors import BusyError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.engine.engine import Engine
from codequarry.serving.request import admission as module
from codequarry.serving.request.admission import WAIT_S, Gate, Lanes, Place
from codequarry.serving.tools.search import search


def test_a_call_beyond_the_last_place_is_told_to_come_back() -> None:
    gate = Gate(1)
    with gate.place(), pytest.raises(BusyError) as caught, gate.place():
        pass
    assert caught.value.retryable
    assert caught.value.suggestion


def test_a_place_is_free_again_after_a_failure() -> None:
    gate = Gate(1)
    for _ in range(3):
        with pytest.raises(KeyError), gate.place():
            raise KeyError


def test_a_place_that_comes_free_in_time_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT_S", 30)  # on a loaded machine a thread may wait longer than a call does
    gate = Gate(1)
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with gate.place():
            entered.set()
            leave.wait(5)

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait(5)
    threading.Timer(0.002, leave.set).start()
    with gate.place():
        pass
    holder.join()


def test_coroutines_are_refused_together_and_quickly() -> None:
    gate = Gate(2)
    refused = 0

    async def call() -> None:
        nonlocal refused
        try:
            place = await gate.enter()
            await asyncio.sleep(4 * WAIT_S)
            place.end()
        except BusyError:
            refused += 1

    async def flood() -> float:
        calls = [asyncio.create_task(call()) for _ in range(102)]
        started = time.monotonic()
        while refused < 100 and time.monotonic() - started < 5:
            await asyncio.sleep(0.001)
        seconds = time.monotonic() - started
        await asyncio.gather(*calls)
        return seconds

    assert asyncio.run(flood()) < 5 * WAIT_S
    assert refused == 100
    assert gate.running == 0


def test_a_full_queue_refuses_without_waiting() -> None:
    gate = Gate(1)

    async def flood() -> list[str]:
        held = await gate.enter()
        waiting = asyncio.create_task(gate.enter())
        await asyncio.sleep(0)
        order: list[str] = []
        try:
            await gate.enter()
        except BusyError:
            order.append("refused")
        held.end()
        (await waiting).end()
        return [*order, "admitted"]

    assert asyncio.run(flood()) == ["refused", "admitted"]


def test_a_place_goes_to_the_client_with_the_fewest() -> None:
    """A client with many calls must not keep one with a single call waiting behind all of its own."""
    gate = Gate(2)
    admitted: list[str] = []

    async def call(client: str) -> None:
        place = await gate.enter(client)
        admitted.append(client)
        await asyncio.sleep(0.001)
        place.end()

    async def both() -> None:
        first, second = await gate.enter("many"), await gate.enter("many")
        calls = [asyncio.create_task(call(client)) for client in ("many", "one")]
        await asyncio.sleep(0)
        first.end()
        second.end()
        await asyncio.gather(*calls)

    asyncio.run(both())
    assert admitted[0] == "one"


def test_a_full_queue_makes_room_for_a_client_with_less_in_it() -> None:
    gate = Gate(4)

    async def flood() -> tuple[list[object], object]:
        places = [await gate.enter("many") for _ in range(3)]
        places.append(await gate.enter("quiet"))
        many = [asyncio.create_task(gate.enter("many")) for _ in range(4)]
        await asyncio.sleep(0)
        one = asyncio.create_task(gate.enter("one"))
        await asyncio.sleep(0)
        for place in places:
            place.end()
        return await asyncio.gather(*many, return_exceptions=True), await one

    sent_away, admitted = asyncio.run(flood())
    assert [isinstance(one, BusyError) for one in sent_away] == [False, False, False, True]
    assert not isinstance(admitted, BaseException)


def test_one_client_leaves_places_to_others() -> None:
    """Slow calls of one client must not lock everybody else out; a lone caller without a name may have them all."""
    gate = Gate(4)

    async def take() -> None:
        for _ in range(3):
            await gate.enter("slow")
        with pytest.raises(BusyError):
            await gate.enter("slow")
        await gate.enter("other")

    asyncio.run(take())
    alone = Gate(4)
    with alone.place(), alone.place(), alone.place(), alone.place():
        assert alone.running == 4


def test_a_cancelled_wait_leaves_no_place_behind() -> None:
    gate = Gate(1)

    async def cancel() -> None:
        held = await gate.enter()
        waiting = asyncio.create_task(gate.enter())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        held.end()

    asyncio.run(cancel())
    assert gate.running == 0


def test_a_place_is_given_back_once_and_not_while_somebody_works_on_it() -> None:
    gate = Gate(1)

    async def enter() -> Place:
        return await gate.enter()

    place = asyncio.run(enter())
    assert place.start()
    place.withdraw()
    assert gate.running == 1
    place.end()
    place.end()
    assert gate.running == 0
    withdrawn = asyncio.run(enter())
    withdrawn.withdraw()
    assert not withdrawn.start()
    assert gate.running == 0


def test_the_engine_is_behind_the_gate(lexical_engine) -> None:
    engine = Engine(lexical_engine.bundle, ServingSettings(max_concurrency=1))
    with engine.gate.place(), pytest.raises(BusyError):
        engine.search(SearchRequest(query="open"))
    assert engine.search(SearchRequest(query="open")).results


def test_one_engine_serves_many_threads(engine) -> None:
    expected = engine.search(SearchRequest(query="open the index")).results
    wrong: list[object] = []

    def work() -> None:
        for _ in range(20):
            found = engine.answer_admitted("search", search, SearchRequest(query="open the index")).results
            if found != expected:
                wrong.append(found)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


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
    monkeypatch.setattr(module, "PATIENCE_S", 1e6)
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
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)
    shared = Lanes(1)
    everybody = [Computing(shared) for _ in range(4)]
    assert all(one.entered.wait(20) for one in everybody)
    for one in everybody:
        one.end()


def test_what_fails_leaves_its_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 1e6)
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
