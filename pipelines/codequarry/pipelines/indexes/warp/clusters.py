"""Clusters of token vectors: spherical k-means in two levels, and assignment that looks into a few cells only.

Comparing N tokens with C = 8 sqrt(N) centres costs N^1.5: half a CPU-day for a million chunks. The centres are
therefore kept in sqrt(C) cells, and a token is compared with those of its `_CELLS` nearest cells.
"""

# pyright: reportMissingTypeStubs=false
# FAISS ships no type stubs.

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FLAT = 256
"""Up to this many centres there is one cell."""
_CELLS = 8
"""Cells a token is compared with."""
_PER_CLUSTER = 32
"""Sampled tokens for each centre."""
_PER_CELL = 256
"""Sampled tokens for each cell's own centre."""
_ROUNDS = 8
"""Iterations of k-means."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Centres of clusters, cell by cell."""

    centroids: NDArray[np.int8]
    """(C, d), in code space."""
    scales: NDArray[np.float32]
    """(d,) of the token encoder."""
    cells: NDArray[np.float32]
    """(k, d): centres of the cells."""
    starts: NDArray[np.int64]
    """(k + 1,): centroids of cell j are from starts[j] to starts[j + 1]."""

    def assign(self, codes: NDArray[np.int8]) -> NDArray[np.int32]:
        """Assign tokens to clusters: to the centre with the largest inner product among those that are compared.

        Args:
            codes: (m, d) int8; about 1 kB of memory each.

        Returns:
            Cluster of each token, (m,) int32.
        """
        vectors = codes * self.scales
        centres = self.centroids * self.scales
        best = np.full(len(codes), -np.inf, np.float32)
        found = np.zeros(len(codes), np.int32)
        for cell, rows in self._rows_by_cell(vectors):
            low, high = self.starts[cell], self.starts[cell + 1]
            if low == high or not len(rows):
                continue
            scores = vectors[rows] @ centres[low:high].T
            nearest = scores.argmax(axis=1)
            top = scores[np.arange(len(rows)), nearest]
            better = top > best[rows]
            best[rows[better]] = top[better]
            found[rows[better]] = (nearest[better] + low).astype(np.int32)
        return found

    def _rows_by_cell(self, vectors: NDArray[np.float32]) -> list[tuple[int, NDArray[np.int64]]]:
        """Return the tokens to compare with the centres of each cell."""
        count = len(self.cells)
        if count <= _CELLS:
            return [(cell, np.arange(len(vectors))) for cell in range(count)]
        # A cell without centres cannot be chosen.
        near = vectors @ self.cells.T
        near[:, np.diff(self.starts) == 0] = -np.inf
        chosen = np.argpartition(near, count - _CELLS, axis=1)[:, count - _CELLS :].ravel()
        order = np.argsort(chosen, kind="stable")
        bounds = np.searchsorted(chosen[order], np.arange(count + 1))
        rows = order // _CELLS
        return [(cell, rows[bounds[cell] : bounds[cell + 1]]) for cell in range(count)]


def cluster_count(tokens: int) -> int:
    """Return the largest power of two up to 8 sqrt(N), and to N.

    WARP and PLAID take 16 sqrt(N). Half of it finds more with the same work: docs/adr/0015.

    >>> [cluster_count(n) for n in (0, 1, 5, 1_000, 2_500_000, 200_000_000)]
    [0, 1, 4, 128, 8192, 65536]
    """
    wanted = min(8 * math.sqrt(tokens), tokens)
    return 1 << int(math.log2(wanted)) if tokens else 0


def sample_size(tokens: int, memory_bytes: int, dim: int) -> int:
    """Return the number of tokens to train on: enough for each cluster, and at most a sixth of the memory."""
    return min(tokens, _PER_CLUSTER * cluster_count(tokens), max(1024, memory_bytes // (24 * dim)))


def train(codes: NDArray[np.int8], scales: NDArray[np.float32], count: int, seed: int) -> Clusters:
    """Cluster a sample.

    The same sample and seed give the same clusters: one thread adds up.

    Args:
        codes: (m, d) int8, m >= count.
        scales: (d,) float32.
        count: Number of clusters, at least 1.
        seed: Seed of the k-means.

    Returns:
        The clusters.
    """
    vectors = np.ascontiguousarray(codes * scales)
    if count <= _FLAT:
        centres = _k_means(vectors, count, seed)
        return _celled(centres, np.zeros((1, vectors.shape[1]), np.float32), scales)
    cells = 1 << (int(math.log2(count)) // 2)
    step = max(1, len(vectors) // (_PER_CELL * cells))
    middle = _k_means(vectors[::step], cells, seed)
    own = (vectors @ middle.T).argmax(axis=1)
    order = np.argsort(own, kind="stable")
    sizes = np.bincount(own, minlength=cells)
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    shares = _shares(sizes, count)
    centres = [
        _k_means(vectors[order[bounds[cell] : bounds[cell + 1]]], int(shares[cell]), seed + 1 + cell)
        for cell in np.flatnonzero(shares).tolist()
    ]
    clusters = _celled(np.concatenate(centres), middle, scales)
    # A cell's own k-means does not see the tokens just outside of it: one round over all corrects the borders.
    return _celled(_means(vectors, clusters.assign(codes), clusters), middle, scales)


def _celled(centres: NDArray[np.float32], cells: NDArray[np.float32], scales: NDArray[np.float32]) -> Clusters:
    own = (centres @ cells.T).argmax(axis=1)
    order = np.argsort(own, kind="stable")
    codes = np.clip(np.rint(centres[order] / scales), -127, 127).astype(np.int8)
    return Clusters(codes, scales, cells, np.searchsorted(own[order], np.arange(len(cells) + 1)))


def _means(vectors: NDArray[np.float32], own: NDArray[np.int32], clusters: Clusters) -> NDArray[np.float32]:
    """Return the mean direction of the tokens of each cluster; the centre itself for a cluster without tokens."""
    order = np.argsort(own, kind="stable")
    members, starts = np.unique(own[order], return_index=True)
    sums = np.add.reduceat(vectors[order], starts, axis=0)
    centres = clusters.centroids * clusters.scales
    centres[members] = sums
    return _unit(centres)


def _k_means(vectors: NDArray[np.float32], count: int, seed: int) -> NDArray[np.float32]:
    """Return (count, d) float32 unit centres by FAISS."""
    import faiss

    if count >= len(vectors):
        return _unit(vectors.copy())
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        trained = faiss.Kmeans(
            vectors.shape[1], count, niter=_ROUNDS, spherical=True, seed=seed,
            min_points_per_centroid=1, max_points_per_centroid=len(vectors),
        )  # fmt: skip
        trained.train(np.ascontiguousarray(vectors))
    finally:
        faiss.omp_set_num_threads(threads)
    centres: Any = trained.centroids
    return _unit(np.nan_to_num(centres))


def _shares(sizes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the number of clusters of each cell, in proportion: at least one for any token, at most one per token."""
    wanted = sizes * (count / sizes.sum())
    shares = np.minimum(np.maximum(np.floor(wanted).astype(np.int64), 1), sizes)
    while (missing := count - int(shares.sum())) != 0:
        step = 1 if missing > 0 else -1
        open_cells = np.flatnonzero(shares < sizes if step > 0 else shares > 1)
        order = np.argsort(step * (shares - wanted)[open_cells], kind="stable")
        shares[open_cells[order[: abs(missing)]]] += step
    return shares


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms > 0, norms, 1).astype(np.float32)
