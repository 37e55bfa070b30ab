"""Reading ahead and writing behind: order, bounds and errors of each thread."""

from __future__ import annotations

import threading
import time

import pytest

from codequarry.pipelines.embed.overlap import WriteBehind, read_ahead

pytestmark = pytest.mark.unit
WAIT_S = 20.0


def test_the_next_item_is_read_while_this_one_is_worked_on() -> None:
    began = {number: threading.Event() for number in range(3)}

    def read(number: int) -> int:
        began[number].set()
        return number * 10

    found = read_ahead(read, range(3))
    assert next(found) == (0, 0)
    assert began[1].wait(WAIT_S)
    assert not began[2].is_set()
    assert list(found) == [(1, 10), (2, 20)]


@pytest.mark.parametrize("overlap", [True, False])
def test_an_error_of_the_reader_comes_behind_the_items_before(overlap: bool) -> None:
    done: list[int] = []
    with pytest.raises(ZeroDivisionError):
        for number, _ in read_ahead(lambda number: 1 / (2 - number), range(9), overlap=overlap):
            done.append(number)
    assert done == [0, 1]


def test_a_reader_that_nobody_asks_on_ends() -> None:
    threads = threading.active_count()
    found = read_ahead(lambda number: number, range(100))
    next(found)
    del found
    assert threading.active_count() == threads


@pytest.mark.parametrize("overlap", [True, False])
def test_work_is_done_in_order(overlap: bool) -> None:
    done: list[int] = []
    with WriteBehind(overlap=overlap) as behind:
        for number in range(50):
            behind.put(lambda number=number: done.append(number))
    assert done == list(range(50))


def test_the_caller_goes_on_until_four_pieces_wait() -> None:
    gate, given = threading.Event(), []
    with WriteBehind() as behind:

        def give() -> None:
            for number in range(9):
                behind.put(gate.wait)
                given.append(number)

        giver = threading.Thread(target=give)
        giver.start()
        deadline = time.monotonic() + WAIT_S
        while len(given) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)
        assert len(given) == 4
        gate.set()
        giver.join(WAIT_S)
    assert len(given) == 9


@pytest.mark.parametrize("overlap", [True, False])
def test_an_error_of_the_writer_reaches_the_caller_and_stops_the_rest(overlap: bool) -> None:
    done: list[int] = []

    def fail() -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), WriteBehind(overlap=overlap) as behind:
        behind.put(lambda: done.append(1))
        behind.put(fail)
        behind.put(lambda: done.append(2))
    assert done == [1]


def test_what_was_finished_before_an_error_of_the_encoder_is_written() -> None:
    done: list[int] = []
    with pytest.raises(ValueError, match="encoder"), WriteBehind() as behind:
        behind.put(lambda: (time.sleep(0.05), done.append(1)))
        raise ValueError("encoder")
    assert done == [1]
