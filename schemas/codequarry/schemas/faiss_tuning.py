"""``faiss.tuning.json``: at which operating points an approximate index was measured, and which one is used.

Nothing in the file depends on a clock: cost is how many vectors FAISS compared for a query, which it counts. The same
vectors give the same file. What a comparison costs in time on a machine, ``codequarry tune faiss`` measures there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from codequarry.schemas.errors import UnavailableError

DEPTH = 10
"""Neighbours that recall is of."""
POOL = 150
"""How many neighbours an approximate index is asked for at least, which are then compared exactly."""

Parameters = Annotated[str, StringConstraints(pattern=r"^([a-zA-Z_]+=[0-9.]+(,[a-zA-Z_]+=[0-9.]+)*)?$", max_length=200)]
"""What FAISS's ``ParameterSpace`` sets, e.g. ``nprobe=32``; empty for an index without parameters."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class OperatingPoint(_Record):
    """What an index finds, and how much it compares for it, with its parameters set so."""

    parameters: Parameters
    recall: float = Field(ge=0, le=1)
    """Recall@10 against exact search, after the pool was compared exactly."""
    comparisons: float = Field(ge=0)
    """Vectors compared for a query, coded ones, those of lists and those of the pool together."""


class FaissTuning(_Record):
    """The file."""

    factory: str
    vectors: int
    queries: int
    """Questions measured on."""
    floor: float
    """The recall that was asked for."""
    chosen: OperatingPoint
    """The cheapest one that reaches it, or the best one where none does."""
    bounds: dict[str, tuple[int, int]]
    """Least and greatest value of each parameter that was measured."""
    frontier: tuple[OperatingPoint, ...]
    """Those that no other is both better and cheaper than, cheapest first."""


def to_bytes(tuning: FaissTuning) -> bytes:
    """The bytes of the file."""
    return (tuning.model_dump_json(indent=1) + "\n").encode()


def read_tuning(file: Path) -> FaissTuning | None:
    """The tuning of an index; None where there is none. Raises UnavailableError: the file is damaged."""
    try:
        return FaissTuning.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise UnavailableError(f"{file.name} cannot be read") from error


def pareto(points: list[OperatingPoint]) -> list[OperatingPoint]:
    """Those that no other is both better and cheaper than, cheapest first; of equal ones the first given.

    >>> made = [OperatingPoint(parameters=f"nprobe={n}", recall=r, comparisons=c)
    ...     for n, r, c in ((1, 0.5, 10), (2, 0.5, 20), (4, 0.9, 40), (8, 0.8, 80))]
    >>> [point.parameters for point in pareto(made)]
    ['nprobe=1', 'nprobe=4']
    """
    kept: list[OperatingPoint] = []
    for point in sorted(points, key=lambda each: (each.comparisons, -each.recall)):
        if not kept or point.recall > kept[-1].recall:
            kept.append(point)
    return kept


def choose(frontier: list[OperatingPoint], floor: float) -> OperatingPoint:
    """The cheapest point whose recall reaches a floor, or the best one where none does. frontier: by `pareto`."""
    return next((point for point in frontier if point.recall >= floor), frontier[-1])
