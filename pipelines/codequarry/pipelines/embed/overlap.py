"""Reading ahead and writing behind, while an encoder works.

The encoder runs in the calling thread. One thread reads the next part meanwhile, another writes what is finished, in
the order in which it was finished. Both wait when they are too far ahead, so that memory stays bounded. That is for
encoders on a GPU or a server: beside one on the CPU the threads cost more than they save (docs/adr/0035).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

_Item = TypeVar("_Item")
_Read = TypeVar("_Read")
_AHEAD = 1
"""Number of items that are read before they are asked for."""
_BEHIND = 4
"""Most pieces of work that wait to be written."""


def read_ahead(
    read: Callable[[_Item], _Read], items: Iterable[_Item], *, overlap: bool = True
) -> Iterator[tuple[_Item, _Read]]:
    """Yield items with what was read of them, in order, while a thread reads the next one.

    Args:
        read: Reads an item. What it raises is raised where its item would have been yielded.
        items: Items to read.
        overlap: False reads an item when it is asked for, without a thread.

    Yields:
        An item, and what was read of it.
    """
    if not overlap:
        for item in items:
            yield item, read(item)
        return
    pool = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
    waiting: deque[tuple[_Item, Future[_Read]]] = deque()
    try:
        for item in items:
            waiting.append((item, pool.submit(read, item)))
            if len(waiting) > _AHEAD:
                first, found = waiting.popleft()
                yield first, found.result()
        while waiting:
            first, found = waiting.popleft()
            yield first, found.result()
    finally:
        pool.shutdown(cancel_futures=True)


class WriteBehind:
    """Work that a thread does in the order in which it is given, while the caller goes on.

    After a failure nothing more is done, and the next call raises it. Leaving the block waits for what was given
    before, also when the block raises: its own error is then the one that is raised.

    Args:
        overlap: False does the work when it is given, without a thread.
        finishes: False leaves out what was not begun when the block raises.
    """

    def __init__(self, *, overlap: bool = True, finishes: bool = True) -> None:
        self._overlap = overlap
        self._finishes = finishes
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="write-behind")
        self._waiting: deque[Future[None]] = deque()
        self._failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=error is not None and not self._finishes)
        if error is None:
            self.wait()

    def put(self, work: Callable[[], object]) -> None:
        """Do some work behind what was given before; waits while four pieces are waiting.

        Args:
            work: The work. What an earlier piece raised is raised here.
        """
        if not self._overlap:
            work()
            return
        while len(self._waiting) >= _BEHIND or (self._waiting and self._waiting[0].done()):
            self._waiting.popleft().result()
        self._waiting.append(self._pool.submit(self._run, work))

    def wait(self) -> None:
        """Wait until all work is done; raises what a piece of it raised."""
        while self._waiting:
            self._waiting.popleft().result()

    def _run(self, work: Callable[[], object]) -> None:
        if self._failed:
            return
        try:
            work()
        except BaseException:
            self._failed = True
            raise
