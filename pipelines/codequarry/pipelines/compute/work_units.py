"""Units of work over the cores: file in, file out, and the same files wherever a unit is done.

A unit is a function of a module that is quickly imported: each further process imports it. It may be done twice, so
that what a killed process leaves undone is done by this one. Items and results are small values that JSON can hold;
what is large lies in files. This process does units as well, and hands the others one more than they work on. Results
have the order of the items.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Any

from codequarry.pipelines.compute.unit_processes import UnitProcess, name_unit
from codequarry.schemas.resources import available_cores
from codequarry.schemas.settings.compute import ComputeSettings

_MOST_PROCESSES = 8
"""Each holds the rows of a unit in memory."""
Unit = Callable[[Any], Any]
"""Function of a module, from a value that JSON can hold to another."""


def processes_for(units: int, work: float, compute: ComputeSettings) -> int:
    """Return the number of processes, this one included, to which work is worth dividing.

    Args:
        units: Number of units.
        work: The work as a multiple of the least that a further process should do: its start takes CPU time.
        compute: Settings: a number of processes that they name is taken whatever the work.

    Returns:
        1 for work that this process does alone.
    """
    if not compute.divides:
        return 1
    if compute.processes:
        return max(1, min(compute.processes, units))
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
        others = [stack.enter_context(UnitProcess()) for _ in range(processes - 1)]
        waiting: Iterator[tuple[int, Any]] = enumerate(items)
        left = total
        while len(results) < total:
            for other in others:
                # Of the last items nobody gets a second one: another process may be free sooner.
                while left and (not other.items or (len(other.items) < 2 and left > processes)):
                    other.send(name_unit(unit), *next(waiting))
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
