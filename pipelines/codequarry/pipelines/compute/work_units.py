"""Units of work over the cores: file in, file out, and the same files wherever a unit is done.

A unit is a function of a module that is quickly imported: each further process imports it. It may be done twice, so
that what a killed process leaves undone is done by this one. Items and results are small values that JSON can hold;
what is large lies in files. This process does units as well, and hands the others one more than they work on. Results
have the order of the items.

Protocol: a JSON line with the unit, the number of the item and the item; a JSON line back, with the number and either
the result or the error.
"""

from __future__ import annotations

import builtins
import contextlib
import json
import os
import select
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from types import TracebackType
from typing import Any, Self

from codequarry.schemas import errors
from codequarry.schemas.resources import available_cores

_MOST_PROCESSES = 8
"""Each holds the rows of a unit in memory."""
_READ_BYTES = 1 << 16
Unit = Callable[[Any], Any]
"""Function of a module, from a value that JSON can hold to another."""


def processes_for(units: int, work: float) -> int:
    """Return the number of processes, this one included, to which work is worth dividing.

    Args:
        units: Number of units.
        work: The work as a multiple of the least that a further process should do: its start takes CPU time.

    Returns:
        1 for work that this process does alone.
    """
    return max(1, min(_MOST_PROCESSES, available_cores(), units, int(work)))


def map_units(
    unit: Unit,
    items: Iterable[Any],
    total: int,
    processes: int,
    show: Callable[[int], None] = lambda _: None,
) -> list[Any]:
    """Do a unit of work for each item.

    Args:
        unit: What it raises is raised here, and the other processes are ended.
        items: Asked for the next one, in this process, when a process is free.
        total: Number of items.
        processes: Number of processes, this one included.
        show: Told of the units done.

    Returns:
        Results in the order of the items; those of other processes went through JSON.
    """
    results: dict[int, Any] = {}
    with ExitStack() as stack:
        others = [stack.enter_context(_Process(unit)) for _ in range(processes - 1)]
        waiting: Iterator[tuple[int, Any]] = enumerate(items)
        left = total
        while len(results) < total:
            for other in others:
                # Of the last items nobody gets a second one: another process may be free sooner.
                while left and (not other.items or (len(other.items) < 2 and left > processes)):
                    other.send(*next(waiting))
                    left -= 1
            if left:
                number, item = next(waiting)
                left -= 1
                results[number] = unit(item)
                show(len(results))
            for other in select.select(others, [], [], 0 if left else None)[0] if others else ():
                try:
                    for number, result in other.receive():
                        results[number] = result
                        show(len(results))
                except EOFError:  # it was killed: its items are for the others
                    others.remove(other)
                    waiting = chain(list(other.items), waiting)
                    left += len(other.items)
    return [results[number] for number in range(total)]


class _Process:
    """A process that does units until its input ends."""

    def __init__(self, unit: Unit) -> None:
        self._unit = f"{unit.__module__}:{unit.__qualname__}"
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
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()

    def fileno(self) -> int:
        """Return the descriptor that outcomes come through."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def send(self, number: int, item: Any) -> None:
        """Hand an item over; `receive` notices when the process has ended."""
        self.items.append((number, item))
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps([self._unit, number, item]).encode() + b"\n")
            self._process.stdin.flush()

    def receive(self) -> Iterator[tuple[int, Any]]:
        """Yield the items that are done, from what there is to read.

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
            number, result, error = json.loads(line)
            self.items.popleft()
            if error is not None:
                raise error_of(error)
            yield number, result


def describe_error(error: BaseException, where: str) -> dict[str, Any]:
    """Return an error as a value that JSON can hold, of which `error_of` makes one of its class or of one above it.

    Args:
        error: The error.
        where: Its traceback, for people.

    Returns:
        The value.
    """
    ours = isinstance(error, errors.CodequarryError)
    system = None
    if isinstance(error, OSError) and error.errno is not None:
        system = (error.errno, error.strerror, None if error.filename is None else str(error.filename))
    return {
        "kinds": [kind.__name__ for kind in type(error).__mro__ if kind.__module__ in (errors.__name__, "builtins")],
        "text": error.message if ours else str(error) or type(error).__name__,
        "suggestion": error.suggestion if ours else "",
        "system": system,
        "where": where,
    }


def error_of(value: dict[str, Any]) -> BaseException:
    """Return the error that `describe_error` described; RuntimeError for one that is no Exception."""
    error: BaseException = RuntimeError(value["text"])
    if value["system"] is not None:
        error = OSError(*value["system"])
    else:
        for name in value["kinds"]:
            kind = getattr(errors, name, None) or getattr(builtins, name)
            with contextlib.suppress(TypeError):  # what a class wants besides is not told
                if issubclass(kind, errors.CodequarryError):
                    error = kind(value["text"], suggestion=value["suggestion"])
                    break
                if issubclass(kind, Exception):
                    error = kind(value["text"])
                    break
    error.add_note(value["where"])
    return error
