"""Search of a FAISS index with one query: effort within bounds, and row filters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from codequarry.schemas.bundle.faiss_tuning import FaissTuning

if TYPE_CHECKING:
    import faiss

_WIDEST = 2048
"""Largest search width in a graph for an index without measured bounds."""

Bounds = Mapping[str, tuple[int, int]]
"""Least and greatest value, by name as in `Effort`, of the parameters that an index has."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Search parameters of a query that override the operating point of the index; 0 keeps it."""

    nprobe: int = 0
    """Lists of an IVF index that are read."""
    ef_search: int = 0
    """Width of the search in an HNSW index, or in the graph by which an IVF index finds its lists."""

    def within(self, bounds: Bounds) -> Effort:
        """Return the parameters that the index has, clamped to its bounds.

        >>> Effort(nprobe=5_000, ef_search=64).within({"nprobe": (1, 512)})
        Effort(nprobe=512, ef_search=0)
        """
        return Effort(**{name: _clamped(value, bounds.get(name)) for name, value in _explicit_parameters(self).items()})


USUAL = Effort()


def clamps(effort: Effort, bounds: Bounds) -> tuple[str, ...]:
    """Return notes about values that are out of bounds.

    >>> clamps(Effort(nprobe=5_000, ef_search=64), {"nprobe": (1, 512)})
    ('nprobe clamped to 512',)
    """
    told: list[str] = []
    for name, value in _explicit_parameters(effort).items():
        if name in bounds and (used := _clamped(value, bounds[name])) != value:
            told.append(f"{name} clamped to {used}")
    return tuple(told)


def bounds_of(index: faiss.Index, tuning: FaissTuning | None) -> Bounds:
    """Return bounds of the parameters that a query may set for an index: the smallest and largest measured values."""
    import faiss

    ivf, measured = faiss.try_extract_index_ivf(index), tuning.bounds if tuning is not None else {}
    found: dict[str, tuple[int, int]] = {}
    if ivf is not None:
        found["nprobe"] = measured.get("nprobe", (1, ivf.nlist))
        index, name = faiss.downcast_index(ivf.quantizer), "quantizer_efSearch"
    else:
        index, name = _innermost(index), "efSearch"
    if isinstance(index, faiss.IndexHNSW):
        found["ef_search"] = measured.get(name, (1, _WIDEST))
    return found


def parameters(index: faiss.Index, effort: Effort, selector: faiss.IDSelector | None = None) -> faiss.SearchParameters:
    """Return search parameters of the index's own type.

    Values are those of its operating point, except for the effort; only selected rows are searched.
    """
    import faiss

    # The stubs know neither the keyword arguments nor every class of FAISS's Python layer.
    kinds: Any = faiss
    only = {} if selector is None else {"sel": selector}
    if isinstance(index, faiss.IndexPreTransform):
        inner = parameters(faiss.downcast_index(index.index), effort, selector)
        return kinds.SearchParametersPreTransform(index_params=inner)
    if isinstance(index, faiss.IndexRefine):
        base = parameters(faiss.downcast_index(index.base_index), effort, selector)
        return kinds.IndexRefineSearchParameters(k_factor=index.k_factor, base_index_params=base)
    if isinstance(index, faiss.IndexIVF):
        if effort.ef_search:
            only["quantizer_params"] = kinds.SearchParametersHNSW(efSearch=effort.ef_search)
        return kinds.SearchParametersIVF(nprobe=effort.nprobe or index.nprobe, **only)
    if isinstance(index, faiss.IndexHNSW):
        return kinds.SearchParametersHNSW(efSearch=effort.ef_search or index.hnsw.efSearch, **only)
    return kinds.SearchParameters(**only)


def selector_of(mask: np.ndarray) -> faiss.IDSelector:
    """Return a selector of the rows of a mask, (n,) bool."""
    import faiss

    bitmap = np.packbits(mask, bitorder="little")
    # The stubs know the C++ signature; FAISS's Python layer takes an array and keeps it alive.
    return faiss.IDSelectorBitmap(bitmap)  # pyright: ignore[reportCallIssue]


def found_rows(scores: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and scores of the first query, without the places that FAISS left empty."""
    valid = rows[0] >= 0
    return rows[0][valid], scores[0][valid]


def _innermost(index: faiss.Index) -> faiss.Index:
    """Return the index that is searched, below transforms and refinement."""
    import faiss

    while isinstance(index, (faiss.IndexPreTransform, faiss.IndexRefine)):
        index = faiss.downcast_index(index.index if isinstance(index, faiss.IndexPreTransform) else index.base_index)
    return index


def _explicit_parameters(effort: Effort) -> dict[str, int]:
    return {name: value for name in ("nprobe", "ef_search") if (value := getattr(effort, name))}


def _clamped(value: int, bounds: tuple[int, int] | None) -> int:
    return 0 if bounds is None else min(max(value, bounds[0]), bounds[1])
