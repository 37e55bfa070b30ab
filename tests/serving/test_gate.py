from __future__ import annotations

import asyncio
import threading
import time

import pytest

from codequarry.schemas.errors import BusyError
from codequarry.schemas.settings import ServingSettings
from codequarry.schemas.tools import SearchRequest
from codequarry.serving.engine import Engine
from codequarry.serving.gate import WAIT_S, Gate


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


def test_a_place_that_comes_free_in_time_is_taken() -> None:
    gate = Gate(1)
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with gate.place():
            entered.set()
            leave.wait(5)

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait(5)
    threading.Timer(WAIT_S / 5, leave.set).start()
    with gate.place():
        pass
    holder.join()


def test_coroutines_are_refused_together_and_quickly() -> None:
    gate = Gate(2)
    refused = 0

    async def call() -> None:
        nonlocal refused
        try:
            async with gate.place_async():
                await asyncio.sleep(4 * WAIT_S)
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

    assert asyncio.run(flood()) < 3 * WAIT_S
    assert refused == 100


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
            found = engine.admitted_search(SearchRequest(query="open the index")).results
            if found != expected:
                wrong.append(found)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
