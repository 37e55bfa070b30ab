"""Operating points of an approximate index: every setting of its parameters, with its recall and its comparisons.

FAISS's own ``ParameterSpace`` says which parameters a kind of index has, and sets them. Its ``explore`` is not used: it
drops points by the time they take, so that two runs keep different ones. Here the cost of a point is the number of
vectors compared, which FAISS counts: the same vectors and questions give the same frontier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from codequarry.schemas.bundle.faiss_tuning import DEPTH, POOL, FaissTuning, OperatingPoint, choose, pareto
from codequarry.serving.channels.vector_table import VectorTable

_BLOCK = 65_536
_MOST_POINTS = 48
_SATURATED = 0.9995
"""Recall from which on greater values of the parameters are not measured."""
_WIDER = (1024.0, 2048.0)
"""Widths of a graph's search beyond those FAISS lists: texts are asked for by vectors unlike theirs."""
_FEW_LISTS = 32.0
"""Number of lists from which on one and a half times each value is measured too: FAISS lists only powers of two."""
_SAME = 1e-5
"""Tolerance within which cosines are equal: any of the chunks with the same vector may be the tenth."""


def tune(
    indexes: Sequence[faiss.Index],
    vectors: NDArray[np.float32] | VectorTable,
    queries: NDArray[np.float32],
    factory: str,
    floor: float,
) -> FaissTuning:
    """Measure the operating points of an index.

    Args:
        indexes: One or more without their id maps, over consecutive rows; left at the chosen point.
        vectors: (n, d) float32 of all rows, mapped or not.
        queries: (q, d) float32, q ≥ 1.
        factory: FAISS factory string of the indexes.
        floor: recall@10 that the chosen point has to reach.

    Returns:
        The frontier and the chosen point.
    """
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        tenth = exact_scores(vectors, queries)[:, -1]
        ranges = parameter_ranges(indexes[0])
        points: list[OperatingPoint] = []
        enough: list[tuple[float, ...]] = []
        for values in _points(ranges):
            if any(all(own >= other for own, other in zip(values, each, strict=True)) for each in enough):
                continue
            named = as_parameters(zip(ranges, values, strict=True))
            set_parameters(indexes, named)
            found, compared = _measure_recall(indexes, vectors, queries, tenth)
            points.append(OperatingPoint(parameters=named, recall=round(found, 6), comparisons=round(compared, 1)))
            if found >= _SATURATED:
                enough.append(values)
        frontier = pareto(points)
        chosen = choose(frontier, floor)
        set_parameters(indexes, chosen.parameters)
    finally:
        faiss.omp_set_num_threads(threads)
    return FaissTuning(
        factory=factory,
        vectors=len(vectors),
        queries=len(queries),
        floor=floor,
        chosen=chosen,
        bounds={name: (int(min(values)), int(max(values))) for name, values in ranges.items()},
        frontier=tuple(frontier),
    )


def exact_scores(
    vectors: NDArray[np.float32] | VectorTable, queries: NDArray[np.float32], depth: int = DEPTH
) -> NDArray[np.float32]:
    """Return inner products with the nearest vectors, best first: (q, min(depth, n)) float32, by comparing with all."""
    found = np.empty((len(queries), 0), np.float32)
    for start in range(0, len(vectors), _BLOCK):
        block = np.ascontiguousarray(vectors[start : start + _BLOCK], np.float32)
        scores, _ = faiss.knn(queries, block, min(depth, len(block)), metric=faiss.METRIC_INNER_PRODUCT)
        found = -np.sort(-np.hstack([found, scores]), axis=1)[:, :depth]
    return found


def parameter_ranges(index: faiss.Index) -> dict[str, tuple[float, ...]]:
    """Return the parameters that FAISS knows for this kind of index, and the values to try, ascending."""
    space = faiss.ParameterSpace()
    space.initialize(index)
    found: dict[str, tuple[float, ...]] = {}
    for place in range(space.parameter_ranges.size()):
        one = space.parameter_ranges.at(place)
        values = np.unique(faiss.vector_to_array(one.values)).tolist()
        if one.name == "nprobe":
            lists = faiss.extract_index_ivf(index).nlist
            between = (1.5 * value for value in values if value >= _FEW_LISTS and 1.5 * value < lists)
            values = sorted({*values, *between, float(lists)})
        elif one.name == "efSearch":
            values = [*values, *_WIDER]
        found[one.name] = tuple(values)
    return found


def as_parameters(values: Iterator[tuple[str, float]] | zip) -> str:
    """Return parameters in the form that FAISS reads.

    >>> as_parameters(zip(["nprobe", "ht"], [32.0, 2.5]))
    'nprobe=32,ht=2.5'
    """
    return ",".join(f"{name}={int(value) if value == int(value) else value}" for name, value in values)


def set_parameters(indexes: Sequence[faiss.Index], parameters: str) -> None:
    """Bring indexes to an operating point; one without parameters stays as it is."""
    for index in indexes if parameters else ():
        faiss.ParameterSpace().set_index_parameters(index, parameters)


def pool(indexes: Sequence[faiss.Index], queries: NDArray[np.float32], depth: int = POOL) -> NDArray[np.int64]:
    """Return the rows that each index finds: (q, up to depth for each index) int64, -1 for rows that are missing."""
    found: list[NDArray[np.int64]] = []
    start = 0
    for index in indexes:
        _, rows = index.search(queries, min(depth, max(1, index.ntotal)))
        found.append(np.where(rows < 0, -1, rows + start))
        start += index.ntotal
    return np.hstack(found)


def recall(
    vectors: NDArray[np.float32] | VectorTable,
    queries: NDArray[np.float32],
    rows: NDArray[np.int64],
    tenth: NDArray[np.float32],
) -> float:
    """Return the share of the best ten that a pool holds.

    Args:
        vectors: (n, d) float32 of all rows.
        queries: (q, d) float32.
        rows: Rows of the pool, as `pool` returns them.
        tenth: Least inner product of the exact best ten, (q,) float32.

    Returns:
        The share over all queries, in [0, 1].
    """
    depth = min(DEPTH, len(vectors))
    held = 0
    for query, own, least in zip(queries, rows, tenth, strict=True):
        scores = vectors[own[own >= 0]] @ query
        held += min(depth, int((scores >= least - _SAME).sum()))
    return held / (depth * len(queries))


def _measure_recall(
    indexes: Sequence[faiss.Index],
    vectors: NDArray[np.float32] | VectorTable,
    queries: NDArray[np.float32],
    tenth: NDArray[np.float32],
) -> tuple[float, float]:
    """Return recall, and vectors compared for a query."""
    counted: Any = faiss.cvar  # the stubs do not know it
    lists, graph = counted.indexIVF_stats, counted.hnsw_stats
    lists.reset()
    graph.reset()
    rows = pool(indexes, queries)
    compared = (lists.ndis + graph.ndis) / len(queries) + sum(_always(index) for index in indexes) + rows.shape[1]
    return recall(vectors, queries, rows, tenth), compared


def _always(index: faiss.Index) -> float:
    """Return the number of vectors that an index compares for every query beyond those FAISS counts."""
    if isinstance(index, faiss.IndexRefine):
        return index.k_factor * POOL + _always(faiss.downcast_index(index.base_index))
    if isinstance(index, faiss.IndexPreTransform):
        return _always(faiss.downcast_index(index.index))
    if isinstance(index, faiss.IndexIVF):
        coarse = faiss.downcast_index(index.quantizer)
        return 0 if isinstance(coarse, faiss.IndexHNSW) else index.nlist
    return 0 if isinstance(index, faiss.IndexHNSW) else index.ntotal


def _points(ranges: dict[str, tuple[float, ...]]) -> Iterator[tuple[float, ...]]:
    """Yield combinations of values, cheap ones first; long ranges lose every other value until there are few points."""
    values = [list(each) for each in ranges.values()]
    while np.prod([len(each) for each in values]) > _MOST_POINTS:
        longest = max(values, key=len)
        longest[:] = longest[::-1][::2][::-1]  # the greatest stays
    ordered = sorted(product(*(range(len(each)) for each in values)), key=lambda places: (sum(places), places))
    for places in ordered:
        yield tuple(own[place] for own, place in zip(values, places, strict=True))
