"""Walk from definitions along relations: breadth first within a budget, each definition once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from codequarry.schemas.wire.symbols import Evidence
from codequarry.serving.catalog.definition_rows import SymbolRow
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.tools.naming.meanings import CERTAINTY

_MOST_NODES = 400
"""Definitions from which a walk goes on."""


class RelationStep(NamedTuple):
    """A relation that was found. Lines are 0-based."""

    relation: str
    of: SymbolRow
    row: SymbolRow | None
    """Definition that is found; None for the top level of a file."""
    file: int
    line: int
    evidence: Evidence
    depth: int = 1
    again: bool = False
    """True when the definition is listed elsewhere in the answer, or is one that was asked about."""

    @property
    def node(self) -> tuple[int, int]:
        """Number of what is found, to tell whether it was found before."""
        return (self.file, -1) if self.row is None else (self.row.file, self.row.symbol_id)


Expand = Callable[[Sequence[SymbolRow]], list[RelationStep]]
"""Function that finds the direct relations of definitions."""


def walk(start: Sequence[SymbolRow], expand: Expand, depth: int, deadline: Deadline) -> list[RelationStep]:
    """Follow relations from definitions.

    Args:
        start: Definitions that are asked about.
        expand: Finds direct relations.
        depth: Steps to follow.
        deadline: Deadline of the request.

    Returns:
        What was found: nearest steps first, inside of a step the surest first. What is found again, or is known by
        name alone, is listed and not followed; what is both is left out.

    Raises:
        DeadlineError: No time is left before the first step is done.
    """
    known = {(row.file, row.symbol_id) for row in start}
    level, found = list(start), list[RelationStep]()
    for distance in range(1, depth + 1):
        deadline.check()
        following: list[SymbolRow] = []
        pairs: set[tuple[int, tuple[int, int]]] = set()
        for step in sorted(expand(level), key=lambda one: CERTAINTY.index(one.evidence)):
            if (pair := (step.of.symbol_id, step.node)) in pairs:
                continue  # a second use of the same by the same
            pairs.add(pair)
            again = step.node in known
            if again and step.evidence == "by name":
                continue
            found.append(step._replace(depth=distance, again=again))
            known.add(step.node)
            if not again and step.row is not None and step.evidence != "by name":
                following.append(step.row)
        level = following[:_MOST_NODES]
        if not level:
            break
    return found


def in_tree_order(steps: Sequence[RelationStep], limit: int) -> list[RelationStep]:
    """Return the nearest steps, each behind the one that it was reached from.

    Args:
        steps: Steps as `walk` returns them.
        limit: How many are kept, the nearest ones.

    Returns:
        The kept steps as a tree, depth first.
    """
    kept = steps[:limit]
    below: dict[int, list[RelationStep]] = {}
    for step in kept:
        below.setdefault(step.of.symbol_id, []).append(step)
    ordered: list[RelationStep] = []
    stack = [step for step in kept if step.depth == 1][::-1]
    while stack:
        step = stack.pop()
        ordered.append(step)
        if step.row is not None and not step.again:
            stack += [one for one in below.get(step.row.symbol_id, ()) if one.depth == step.depth + 1][::-1]
    return ordered
