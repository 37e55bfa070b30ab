"""Several tasks of one call: one after the other, or each in a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Protocol, TypeVar

T = TypeVar("T")


class RunTasks(Protocol):
    """Runs the tasks of one call."""

    def __call__(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Run tasks, and return their results in the same order; the first error is raised after all have ended."""
        ...


def run_in_turn(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Run tasks one after the other.

    >>> run_in_turn([lambda: 1, lambda: 2])
    [1, 2]

    Args:
        tasks: The tasks.

    Returns:
        Their results.
    """
    return [task() for task in tasks]


class Threads:
    """Threads that wait for others: tasks run at the same time, each in the context of its caller."""

    def __init__(self, most: int) -> None:
        """Keep threads.

        Args:
            most: Most threads at once; further tasks wait.
        """
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="ask")

    def __call__(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """See `RunTasks`. The last task runs in the thread of the caller."""
        if not tasks:
            return []
        others = [self._pool.submit(copy_context().run, task) for task in tasks[:-1]]
        try:
            last = tasks[-1]()
        finally:
            for each in others:
                each.exception()
        return [*(each.result() for each in others), last]

    def close(self) -> None:
        """End idle threads; running tasks end by themselves."""
        self._pool.shutdown(wait=False, cancel_futures=True)
