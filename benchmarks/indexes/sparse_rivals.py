"""Other ways to search the same learned sparse index, compared by `benchmarks.indexes.sparse`: all of them exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from codequarry.serving.channels.splade_index import SpladeIndex
from codequarry.serving.encoders.sparse import SparseQuery

Search = Callable[[SparseQuery], np.ndarray]
"""Query to (n,) integer scores, of documents that may be among the first; of others anything lower."""
_SHIFT = 6
"""Blocks are of 64 documents."""


def rivals(index: SpladeIndex, limit: int) -> dict[str, Search]:
    """Searches by name. limit: documents wanted."""
    arrays = index.arrays
    offsets, documents, impacts = (np.asarray(arrays[name]) for name in ("offsets", "documents", "impacts"))
    count = index.spec.documents
    matrix: Any = sparse.csr_matrix(
        (impacts.astype(np.int32), documents, offsets), shape=(index.spec.vocabulary, count)
    )  # scores are one row of weights times this

    def by_scipy(query: SparseQuery) -> np.ndarray:
        row = sparse.csr_matrix(
            (query.weights, (np.zeros(len(query.terms), int), query.terms)), shape=(1, index.spec.vocabulary)
        )
        return (row @ matrix).toarray()[0]

    def by_loops(query: SparseQuery) -> np.ndarray:
        totals = np.zeros(count, np.int32)
        _add(offsets, documents, impacts, query.terms, query.weights, totals)
        return totals

    return {"scipy": by_scipy, "numba": by_loops, "numba, block-max": _BlockMax(index, limit).search}


class _BlockMax:
    """Block-max pruning (Mallia et al. 2024): blocks by the most they can score, until no other can enter."""

    def __init__(self, index: SpladeIndex, limit: int) -> None:
        arrays = index.arrays
        self._offsets, self._documents, self._impacts = (
            np.asarray(arrays[name]) for name in ("offsets", "documents", "impacts")
        )
        self._limit = limit
        self._count = index.spec.documents
        self._blocks = (self._count >> _SHIFT) + 1
        terms = np.repeat(np.arange(index.spec.vocabulary, dtype=np.int64), np.diff(self._offsets))
        keys = terms * self._blocks + (self._documents >> _SHIFT)
        first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        self._largest = np.maximum.reduceat(self._impacts, first)
        self._block = (self._documents[first] >> _SHIFT).astype(np.int32)
        self._starts = np.searchsorted(first, self._offsets)
        self._bounds = np.append(first, len(self._documents))
        self.share: list[float] = []
        """Of the blocks that were scored, by search."""

    def search(self, query: SparseQuery) -> np.ndarray:
        """See `Search`."""
        most = np.zeros(self._blocks, np.int32)
        _bound(self._starts, self._block, self._largest, query.terms, query.weights, most)
        order = np.argsort(-most)
        totals = np.zeros(self._count, np.int32)
        done, step = 0, max(8, 2 * self._limit >> _SHIFT)
        while done < self._blocks:
            chosen = np.zeros(self._blocks, np.bool_)
            chosen[order[done : done + step]] = True
            _add_blocks(
                self._starts, self._bounds, self._block, self._documents, self._impacts, query.terms, query.weights,
                chosen, totals,
            )  # fmt: skip
            done += step
            least = np.partition(totals, self._count - self._limit)[self._count - self._limit]
            step = int((most[order[done:]] >= max(least, 1)).sum())
            if not step:
                break
        self.share.append(min(done, self._blocks) / self._blocks)
        return totals


_compiled: Any = njit(nogil=True)


@_compiled
def _add(offsets, documents, impacts, terms, weights, totals):
    for place in range(len(terms)):
        for posting in range(offsets[terms[place]], offsets[terms[place] + 1]):
            totals[documents[posting]] += impacts[posting] * weights[place]


@_compiled
def _bound(starts, block, largest, terms, weights, most):
    for place in range(len(terms)):
        for entry in range(starts[terms[place]], starts[terms[place] + 1]):
            most[block[entry]] += largest[entry] * weights[place]


@_compiled
def _add_blocks(starts, bounds, block, documents, impacts, terms, weights, chosen, totals):
    for place in range(len(terms)):
        for entry in range(starts[terms[place]], starts[terms[place] + 1]):
            if chosen[block[entry]]:
                for posting in range(bounds[entry], bounds[entry + 1]):
                    totals[documents[posting]] += impacts[posting] * weights[place]
