"""Several GPUs for one encoder: the devices that a setting names, and texts shared among them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar

_PIECE = 1_024
"""Texts that a device gets at a time."""
_Made = TypeVar("_Made", covariant=True)
_Batch = TypeVar("_Batch")
_Result = TypeVar("_Result")


class Documents(Protocol[_Made]):
    """Encoder of documents on one device."""

    def encode_documents(self, texts: Sequence[str], /) -> Iterable[_Made]:
        """Return one result for each text."""
        ...


def device_names(setting: str) -> tuple[str, ...]:
    """Return the devices that a setting names, one by one: "cuda" stands for all that the driver shows.

    Args:
        setting: Value of a setting: "cuda", "cuda:1", "cuda:0,cuda:1", or the name of another device.

    Returns:
        Names of devices. Without a GPU "cuda" stays, so that opening an encoder there says what is missing.
    """
    if setting == "cuda" and (count := visible_gpus()):
        return tuple(f"cuda:{number}" for number in range(count))
    return tuple(name.strip() for name in setting.split(","))


def visible_gpus() -> int:
    """Return the number of GPUs that NVIDIA's driver shows, which heeds CUDA_VISIBLE_DEVICES; 0 without a driver."""
    count = ctypes.c_int(0)
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    except (OSError, AttributeError):
        return 0
    return 0 if failed else count.value


def share_batches(
    devices: Sequence[Callable[[_Batch], _Result]], batches: Sequence[_Batch]
) -> Iterator[tuple[_Batch, _Result]]:
    """Yield batches with their results, in order; each goes to the first device that is free.

    Args:
        devices: Runs a batch on its device, one call at a time. With one device no thread is started.
        batches: Batches in the order in which they are begun.

    Yields:
        A batch, and its result. What a device raises is raised here, and no further batch is begun.
    """
    if len(devices) == 1:
        for batch in batches:
            yield batch, devices[0](batch)
        return
    free: SimpleQueue[Callable[[_Batch], _Result]] = SimpleQueue()
    for device in devices:
        free.put(device)

    def run(batch: _Batch) -> _Result:
        device = free.get()
        try:
            return device(batch)
        finally:
            free.put(device)

    pool = ThreadPoolExecutor(len(devices), thread_name_prefix="device")
    try:
        yield from zip(batches, pool.map(run, batches), strict=True)
    finally:
        pool.shutdown(cancel_futures=True)


class SharedEncoder(Generic[_Made]):
    """Encoder of documents made of one for each device; texts go to the first that is free, results keep their order.

    Args:
        encoders: The encoder of each device.
        names: Names of the devices.
    """

    def __init__(self, encoders: Sequence[Documents[_Made]], names: Sequence[str]) -> None:
        self._encoders = encoders
        self.device = ", ".join(names)
        """Names of the devices."""

    def encode_documents(self, texts: Sequence[str], progress: Callable[[int], None] | None = None) -> list[_Made]:
        """Encode documents.

        Args:
            texts: Texts to encode; neighbours go to the same device.
            progress: Called with the number of texts finished so far.

        Returns:
            One result for each text, in input order.
        """
        made: list[_Made] = []
        pieces = [texts[start : start + _PIECE] for start in range(0, len(texts), _PIECE)]
        for _, found in share_batches([each.encode_documents for each in self._encoders], pieces):
            made.extend(found)
            if progress is not None:
                progress(len(made))
        return made
