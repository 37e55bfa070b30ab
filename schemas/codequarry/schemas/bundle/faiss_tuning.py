"""``faiss.tuning.json``: the operating points at which a dense index was measured, and the one in use.

An exact index has one, which compares every vector and misses none; nothing is measured for it.

Nothing in the file depends on a clock: cost is the number of vectors FAISS compared for a query, which it counts. The
same vectors give the same file. ``codequarry tune faiss`` measures how long a comparison takes on a machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints, ValidationError

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.strict_model import StrictModel

DEPTH = 10
"""Number of neighbours that recall is measured on."""
POOL = 150
"""Least number of neighbours that an approximate index is asked for; they are then compared exactly."""

Parameters = Annotated[str, StringConstraints(pattern=r"^([a-zA-Z_]+=[0-9.]+(,[a-zA-Z_]+=[0-9.]+)*)?$", max_length=200)]
"""Parameters in the form of FAISS's ``ParameterSpace``, e.g. ``nprobe=32``; empty for an index without parameters."""


class OperatingPoint(StrictModel):
    """Recall and cost of an index at one setting of its parameters."""

    parameters: Parameters
    recall: float = Field(ge=0, le=1)
    """Recall@10 against exact search, after the pool was compared exactly."""
    comparisons: float = Field(ge=0)
    """Vectors compared for a query: coded vectors, centroids of lists and those of the pool together."""


class FaissTuning(StrictModel):
    """The file."""

    factory: str
    vectors: int
    queries: int
    """Number of questions measured; 0 for an exact index."""
    floor: float
    """Recall that was asked for."""
    chosen: OperatingPoint
    """The cheapest point that reaches the floor, or the best one when none does."""
    bounds: dict[str, tuple[int, int]]
    """Least and greatest value of each parameter that was measured."""
    frontier: tuple[OperatingPoint, ...]
    """Points for which no other is both better and cheaper, cheapest first."""


def exact_tuning(factory: str, vectors: int, floor: float) -> FaissTuning:
    """Return the tuning of an exact index.

    >>> exact_tuning("Flat", 1_000, 0.98).chosen
    OperatingPoint(parameters='', recall=1.0, comparisons=1000.0)
    """
    whole = OperatingPoint(parameters="", recall=1.0, comparisons=vectors)
    return FaissTuning(
        factory=factory, vectors=vectors, queries=0, floor=floor, chosen=whole, bounds={}, frontier=(whole,)
    )


def to_bytes(tuning: FaissTuning) -> bytes:
    """Return the bytes of the file."""
    return (tuning.model_dump_json(indent=1) + "\n").encode()


def read_tuning(file: Path) -> FaissTuning | None:
    """Read the tuning of an index.

    Args:
        file: ``faiss.tuning.json`` of the index.

    Returns:
        The tuning; None where there is no file.

    Raises:
        UnavailableError: The file is damaged.
    """
    try:
        return FaissTuning.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise UnavailableError(f"{file.name} cannot be read") from error


def pareto(points: list[OperatingPoint]) -> list[OperatingPoint]:
    """Return the Pareto frontier of points, cheapest first: those for which no other has more recall at no more cost.

    Of equal points the first given stays.

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
    """Choose the cheapest point whose recall reaches a floor.

    Args:
        frontier: Points by `pareto`, at least one.
        floor: Recall that the point has to reach.

    Returns:
        The cheapest such point, or the best one when none reaches the floor.
    """
    return next((point for point in frontier if point.recall >= floor), frontier[-1])
