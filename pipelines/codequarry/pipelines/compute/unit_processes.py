"""Further processes that do units of work.

Protocol: a JSON line with the unit, the number of the item and the item, or with a value that units get with every
item; JSON lines back: the progress of the work, and at its end the number with either the result or the error.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from codequarry.pipelines.compute.unit_errors import error_of
from codequarry.pipelines.store.workspace import Progress

_READ_BYTES = 1 << 16
_END_S = 10.0
"""Seconds that a process may take to end what it started; more than any machine needs."""
ToldUnit = Callable[[Any, Any, Progress], Any]
"""Function of a module, from a value for all items, an item and what is told of its progress; JSON can hold the values
and the result."""


def name_unit(unit: Callable[..., Any]) -> str:
    """Return the name by which another process finds a function of a module: ``module:name``."""
    return f"{unit.__module__}:{unit.__qualname__}"


class UnitProcesses:
    """Processes that do large units while this one waits, so that it can show what they do and end them at any time.

    They are started when there is work for them, and stay until the block ends.

    Args:
        progress: Told of the work done.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._stack = ExitStack()
        self._running: list[UnitProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._running.clear()

    def map(self, unit: ToldUnit, common: Any, items: Sequence[Any], count: int) -> list[Any]:
        """Do a unit of work for each item, the first ones first.

        What a killed process leaves undone is done by this one, at the end: were the unit the cause, the others would
        be killed one after the other.

        Args:
            unit: What it raises is raised here; the processes go on until the block ends.
            common: Value that the unit gets beside every item.
            items: Items of the units.
            count: Number of processes; 1 does all in this one, and starts none.

        Returns:
            Results in the order of the items, through JSON in every case.
        """
        results: dict[int, Any] = {}
        left, undone = deque(range(len(items))), list[int]()
        if count > 1:
            self._start(common, min(count, len(items)))
            while left or any(process.items for process in self._running):
                if not self._running:
                    break
                self._hand_over(unit, items, left)
                self._collect(results, undone)
        for number in sorted([*left, *undone]):
            results[number] = json.loads(json.dumps(unit(common, items[number], self._progress)))
        return [results[number] for number in range(len(items))]

    def _start(self, common: Any, count: int) -> None:
        while len(self._running) < count:
            self._running.append(self._stack.enter_context(UnitProcess()))
        for process in self._running:
            process.set_common(common)

    def _hand_over(self, unit: ToldUnit, items: Sequence[Any], left: deque[int]) -> None:
        for process in self._running:
            if left and not process.items:
                number = left.popleft()
                process.send(name_unit(unit), number, items[number], told=True)

    def _collect(self, results: dict[int, Any], undone: list[int]) -> None:
        for process in select.select([each for each in self._running if each.items], [], [])[0]:
            try:
                for number, result in process.receive(self._progress):
                    results[number] = result
            except EOFError:  # it was killed
                self._running.remove(process)
                undone += [number for number, _ in process.items]


class UnitProcess:
    """A process that does units until its input ends."""

    def __init__(self) -> None:
        self.items: deque[tuple[int, Any]] = deque()
        """Items that it works on or will, each with its number, in order."""
        self._begun = b""
        """Beginning of an answer."""
        # -P: the current folder may be a repository that is being indexed.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "codequarry.pipelines.compute.unit_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is this process's to handle; the others end when their input does
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()  # at which it ends what it started, and itself
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            self._process.stdout.close()

    def fileno(self) -> int:
        """Return the descriptor that outcomes come through."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def set_common(self, value: Any) -> None:
        """Set the value that units get beside their item; `receive` notices when the process has ended."""
        self._write({"common": value})

    def send(self, unit: str, number: int, item: Any, *, told: bool = False) -> None:
        """Hand an item over; `receive` notices when the process has ended.

        Args:
            unit: Name of the function that is called with the item, as `name_unit` returns it.
            number: Number of the item.
            item: The item.
            told: The unit is a `ToldUnit`.
        """
        self.items.append((number, item))
        self._write({"unit": unit, "number": number, "item": item, "told": told})

    def receive(self, progress: Progress | None = None) -> Iterator[tuple[int, Any]]:
        """Yield the items that are done, from what there is to read.

        Args:
            progress: Told of the progress of the units.

        Yields:
            The number of an item, and its result.

        Raises:
            EOFError: The process has ended.
            BaseException: What the unit raised.
        """
        data = os.read(self.fileno(), _READ_BYTES)
        if not data:
            raise EOFError("the other process has ended")
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            if len(answer) == 4:
                if progress is not None:
                    progress(*answer[:3])
                continue
            number, result, error = answer
            self.items.popleft()
            if error is not None:
                raise error_of(error)
            yield number, result

    def _write(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
