"""Several devices for one encoder, by fakes: which ones, who gets what, and the order of the results."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from codequarry.pipelines.embed import devices
from codequarry.pipelines.embed.devices import SharedEncoder, device_names, share_batches, visible_gpus

pytestmark = pytest.mark.unit
WAIT_S = 20.0


@pytest.mark.parametrize(
    ("setting", "gpus", "names"),
    [
        ("cuda", 0, ("cuda",)),
        ("cuda", 1, ("cuda:0",)),
        ("cuda", 3, ("cuda:0", "cuda:1", "cuda:2")),
        ("cuda:1", 3, ("cuda:1",)),
        ("cuda:2,cuda:0", 3, ("cuda:2", "cuda:0")),
        ("mps", 0, ("mps",)),
        ("cpu", 2, ("cpu",)),
    ],
)
def test_cuda_stands_for_all_gpus(
    monkeypatch: pytest.MonkeyPatch, setting: str, gpus: int, names: tuple[str, ...]
) -> None:
    monkeypatch.setattr(devices, "visible_gpus", lambda: gpus)
    assert device_names(setting) == names


def test_without_a_driver_no_gpu_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(devices.ctypes, "CDLL", fail)
    assert visible_gpus() == 0


@pytest.mark.parametrize("count", [1, 2, 3])
def test_batches_come_in_order_from_all_devices(count: int) -> None:
    together = threading.Barrier(count)
    used: set[int] = set()

    def device(number: int):
        def run(batch: int) -> int:
            if batch < count:
                together.wait(WAIT_S)  # so that each device gets one of the first
            used.add(number)
            time.sleep(0.001 * (7 * batch % 5))
            return batch * batch

        return run

    made = list(share_batches([device(number) for number in range(count)], range(20)))
    assert made == [(batch, batch * batch) for batch in range(20)]
    assert used == set(range(count))


def test_a_device_has_one_batch_at_a_time() -> None:
    busy = [threading.Lock(), threading.Lock()]

    def device(number: int):
        def run(batch: int) -> int:
            assert busy[number].acquire(blocking=False)
            time.sleep(0.001)
            busy[number].release()
            return batch

        return run

    assert len(list(share_batches([device(0), device(1)], range(40)))) == 40


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_of_a_device_reaches_the_caller_and_the_rest_is_not_begun(count: int) -> None:
    begun: list[int] = []

    def run(batch: int) -> int:
        begun.append(batch)
        time.sleep(0.0005)
        return 1 // (3 - batch)

    threads = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        list(share_batches([run] * count, range(10_000)))
    assert len(begun) < 10_000
    assert threading.active_count() == threads


class Fake:
    """Encoder of one device, which gives the length of each text."""

    def __init__(self, together: threading.Barrier | None = None) -> None:
        self.seen: list[str] = []
        self._together = together

    def encode_documents(self, texts: Sequence[str]) -> list[int]:
        if self._together is not None and not self.seen:
            self._together.wait(WAIT_S)
        self.seen += texts
        return [len(text) for text in texts]


def test_texts_are_shared_and_results_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_PIECE", 10)
    texts = ["x" * (number * 37 % 101) for number in range(205)]
    together = threading.Barrier(2)
    fakes = [Fake(together), Fake(together)]
    shared, told = SharedEncoder(fakes, ("cuda:0", "cuda:1")), []
    assert shared.encode_documents(texts, told.append) == [len(text) for text in texts]
    assert shared.device == "cuda:0, cuda:1"
    assert all(fake.seen for fake in fakes)
    assert sorted(text for fake in fakes for text in fake.seen) == sorted(texts)
    assert (len(told), told[-1]) == (21, 205)
    assert shared.encode_documents([]) == []
