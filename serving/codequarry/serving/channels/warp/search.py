"""Late interaction over an open index: exact rescoring, wide search, and WARP's own scores.

``rescore``  exact MaxSim of given documents: for each query token the best of the document's, summed (ColBERT,
             arXiv 2004.12832, section 3.2). A document's score depends on it and the query alone.
``warp``     WARP (arXiv 2501.17788, section 4): WARPSELECT, implicit decompression, two-stage reduction. Documents are
             scored from the tokens that were found; what was not found counts as the missing score (XTR, arXiv
             2304.01982, section 3.2).
``wide``     the best of ``warp`` at few probes, rescored exactly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.install_hints import install_hint
from codequarry.serving.channels.warp.index import WarpIndex
from codequarry.serving.channels.warp.query import QueryVectors, padded, prepare

WIDE_PROBES = 10
WIDE_CANDIDATES = 400
WARP_PROBES = 32
_TARGET = 4.0
"""t' = 4 * nprobe * P / C: the postings at which a missing score is read off (docs/WARP.md)."""
_RESCORED = 64
"""Documents rescored between two looks at the deadline."""
_KEPT = 12
"""Clusters kept by WARPSELECT for each probe; more are looked at where these hold too few postings."""
_STAMPS = (1 << 31) - 64

Check = Callable[[], None]
"""Raises DeadlineError when there is no time left."""


def unlimited() -> None:
    """Check nothing; a `Check` that never ends a search."""


@dataclass(slots=True)
class Scratch:
    """Buffers of the two-stage reduction for n documents; used by one request at a time and never cleared.

    A value counts only while its stamp is that of the query token or of the query.
    """

    best: NDArray[np.float32]
    best_stamp: NDArray[np.int32]
    total: NDArray[np.float32]
    total_stamp: NDArray[np.int32]
    touched: NDArray[np.int32]
    found: NDArray[np.int32]
    stamp: int = 0
    """Last stamp that was given out."""

    @classmethod
    def of(cls, documents: int) -> Scratch:
        """Allocate buffers for a number of documents: 24 bytes each."""
        floats = [np.zeros(documents, np.float32) for _ in range(2)]
        integers = [np.zeros(documents, np.int32) for _ in range(4)]
        return cls(floats[0], integers[0], floats[1], integers[1], integers[2], integers[3])

    def stamps(self, count: int) -> int:
        """Reserve ``count`` consecutive unused stamps, and return the first."""
        if self.stamp + count >= _STAMPS:
            self.best_stamp[:] = self.total_stamp[:] = self.stamp = 0
        first = self.stamp + 1
        self.stamp += count
        return first

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return the arrays in the order the kernels take them."""
        return (self.best, self.best_stamp, self.total, self.total_stamp, self.touched, self.found)


@dataclass(frozen=True, slots=True)
class Hits:
    """Documents by descending score, equal ones by number."""

    documents: NDArray[np.int64]
    scores: NDArray[np.float32]


@dataclass(frozen=True)
class Searcher:
    """Search over one index. Safe to share between threads."""

    index: WarpIndex
    kernels: ModuleType | None
    """`codequarry.serving.channels.warp.kernels`; None leaves `rescore`, in NumPy."""
    threads: int = 1
    """Threads of one request."""
    _free: list[Scratch] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def prepare(self, vectors: NDArray[np.float32]) -> QueryVectors:
        """Prepare a query's vectors, (t, d) float32, for the other methods; raises as `query.prepare`."""
        return prepare(vectors, self.index.scales, self.index.levels)

    def rescore(
        self, query: QueryVectors, documents: NDArray[np.int64], check: Check = unlimited
    ) -> NDArray[np.float32]:
        """Compute exact MaxSim of documents, over the tokens that the index holds.

        Args:
            query: Prepared query.
            documents: (m,) int64, each from 0 to n - 1.
            check: Called between blocks of documents.

        Returns:
            (m,) float32, in the requested order.

        Raises:
            DeadlineError: ``check`` raised it.
        """
        if len(documents) and not (documents.min() >= 0 and documents.max() < self.index.spec.documents):
            raise IndexError(f"documents {documents.min()} to {documents.max()} of {self.index.spec.documents}")
        base = self._cluster_scores(query) if self.index.spec.profile == "compact" else None
        blocks = [documents[at : at + _RESCORED] for at in range(0, len(documents), _RESCORED)]

        def best_of(block: NDArray[np.int64]) -> NDArray[np.float32]:
            check()
            return self._maxima(query, np.ascontiguousarray(block), base)

        found = self._over(best_of, blocks)
        # Each row of maxima is summed on its own, so that a score does not depend on other documents.
        return np.concatenate([np.empty(0, np.float32), *(rows.sum(axis=1, dtype=np.float32) for rows in found)])

    def warp(
        self,
        query: QueryVectors,
        limit: int,
        *,
        nprobe: int = WARP_PROBES,
        allowed: NDArray[np.bool_] | None = None,
        check: Check = unlimited,
    ) -> Hits:
        """Rank documents by WARP's score.

        Args:
            query: Prepared query.
            limit: Most documents to return.
            nprobe: Clusters searched for each query token.
            allowed: (n,) bool: documents to consider; None for all.
            check: Called between query tokens.

        Returns:
            Documents, best first.

        Raises:
            UnavailableError: The kernels are missing.
            DeadlineError: ``check`` raised it.
        """
        if self.kernels is None:
            raise UnavailableError("numba is not installed", suggestion=install_hint("warp"))
        spec = self.index.spec
        mask = np.ones(spec.documents, np.bool_) if allowed is None else np.ascontiguousarray(allowed, np.bool_)
        if not spec.documents or not mask.any():
            return Hits(np.empty(0, np.int64), np.empty(0, np.float32))
        check()
        base = self._cluster_scores(query)
        check()
        best, clusters, missing = self._probe(base, query.tokens, nprobe)
        cuts = np.linspace(0, spec.documents, self.threads + 1).astype(int).tolist()
        with self._scratch() as scratch:
            first = scratch.stamps(query.tokens)

            def scan(part: tuple[int, int]) -> NDArray[np.int32]:
                return self._scan(query, best, clusters, missing, mask, part, first, scratch, check)

            documents = np.concatenate(self._over(scan, list(pairwise(cuts)))).astype(np.int64)
            scores = missing.sum(dtype=np.float32) + scratch.total[documents]
        return _best(documents, scores, limit)

    def wide(
        self,
        query: QueryVectors,
        limit: int,
        *,
        nprobe: int = WIDE_PROBES,
        candidates: int = WIDE_CANDIDATES,
        allowed: NDArray[np.bool_] | None = None,
        check: Check = unlimited,
    ) -> Hits:
        """Rank the best ``candidates`` documents of `warp` by exact MaxSim; raises as `warp`.

        When at most ``candidates`` documents are allowed, all of them are rescored.
        """
        candidates = max(candidates, limit)
        among = np.ones(self.index.spec.documents, np.bool_) if allowed is None else allowed
        if np.count_nonzero(among) <= candidates:
            documents = np.flatnonzero(among)
        else:
            documents = np.sort(self.warp(query, candidates, nprobe=nprobe, allowed=allowed, check=check).documents)
        return _best(documents, self.rescore(query, documents, check), limit)

    def similarities(self, query: QueryVectors, document: int) -> NDArray[np.float32]:
        """Return the similarities whose maxima `rescore` adds, for explanations: (document tokens, t) float32."""
        low, high = self.index.doc_offsets[document : document + 2].tolist()
        return self._token_scores(query, slice(low, high), None)

    def _over(self, work: Callable[[Any], Any], parts: list[Any]) -> list[Any]:
        if self.threads == 1 or len(parts) <= 1:
            return [work(part) for part in parts]
        with ThreadPoolExecutor(self.threads, thread_name_prefix="warp") as pool:
            return list(pool.map(work, parts))

    @contextmanager
    def _scratch(self) -> Iterator[Scratch]:
        with self._lock:
            scratch = self._free.pop() if self._free else None
        scratch = scratch or Scratch.of(self.index.spec.documents)
        yield scratch
        # Not returned to the pool after an exception: another part of the same request may still be writing.
        with self._lock:
            self._free.append(scratch)

    def _cluster_scores(self, query: QueryVectors) -> NDArray[np.float32]:
        """Compute the similarity of each centroid with each query token: (C, padded t) float32."""
        steps = query.codes
        out = np.zeros((len(self.index.centroids), steps.padded), np.int32)
        if self.kernels is None:
            out[:, : query.tokens] = query.products(self.index.centroids)
        else:
            self.kernels.products(self.index.centroids, steps.lanes, out)
        return out.astype(np.float32) * padded(steps.step, steps)

    def _probe(
        self, base: NDArray[np.float32], tokens: int, nprobe: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]]:
        """Return scores and numbers of the probed clusters, (t, nprobe) each, and the missing scores (t,)."""
        assert self.kernels is not None
        spec = self.index.spec
        nprobe = min(nprobe, spec.centroids)
        target = max(1, int(_TARGET * nprobe * spec.postings / spec.centroids))
        kept = min(_KEPT * nprobe, spec.centroids)
        best = np.empty((tokens, kept), np.float32)
        clusters = np.empty((tokens, kept), np.int32)
        missing = np.empty(tokens, np.float32)
        self.kernels.probe(base, self.index.offsets, target, best, clusters, missing)
        return best[:, :nprobe], clusters[:, :nprobe], missing

    def _scan(
        self,
        query: QueryVectors,
        best: NDArray[np.float32],
        clusters: NDArray[np.int32],
        missing: NDArray[np.float32],
        mask: NDArray[np.bool_],
        part: tuple[int, int],
        first: int,
        scratch: Scratch,
        check: Check,
    ) -> NDArray[np.int32]:
        """Add up the scores of the documents of a part, and return the documents that were found."""
        assert self.kernels is not None
        index, state = self.index, scratch.arrays()
        low, high = part
        found = 0
        for i in range(query.tokens):
            check()
            probed = np.ascontiguousarray(clusters[i]), np.ascontiguousarray(best[i])
            rest = (missing[i], mask, low, high, first + i, first, found, state)
            if index.residuals is None:
                found = self.kernels.scan_clusters(index.offsets, index.pids, *probed, *rest)
            else:
                asked = (query.levels.values[i], query.bias[i], query.levels.step[i])
                found = self.kernels.scan_residuals(
                    index.offsets, index.pids, index.residuals, index.spec.bits, *probed, *asked, *rest
                )
        return scratch.found[low : low + found].copy()

    def _maxima(
        self, query: QueryVectors, documents: NDArray[np.int64], base: NDArray[np.float32] | None
    ) -> NDArray[np.float32]:
        """Compute the best similarity of each query token in each document: (m, t) float32."""
        index = self.index
        if self.kernels is None:
            rows = [self._document(query, document, base).max(axis=0) for document in documents.tolist()]
            return np.stack(rows)
        if index.doc_codes is not None:
            steps = query.codes
            whole = np.empty((len(documents), steps.padded), np.int32)
            self.kernels.maxima(index.doc_codes, index.doc_offsets, documents, steps.lanes, whole)
            return whole[:, : query.tokens].astype(np.float32) * steps.step
        assert index.doc_residuals is not None and index.doc_centroids is not None and base is not None
        steps = query.levels
        out = np.empty((len(documents), steps.padded), np.float32)
        self.kernels.maxima_packed(
            index.doc_residuals, index.doc_centroids, index.doc_offsets, documents, steps.lanes,
            base, padded(query.bias, steps), padded(steps.step, steps), index.spec.bits, out,
        )  # fmt: skip
        return np.ascontiguousarray(out[:, : query.tokens])

    def _document(self, query: QueryVectors, document: int, base: NDArray[np.float32] | None) -> NDArray[np.float32]:
        low, high = self.index.doc_offsets[document : document + 2].tolist()
        return self._token_scores(query, slice(low, high), base)

    def _token_scores(
        self, query: QueryVectors, tokens: slice, base: NDArray[np.float32] | None
    ) -> NDArray[np.float32]:
        index = self.index
        if index.doc_codes is not None:
            return query.token_scores(index.doc_codes[tokens])
        assert index.doc_residuals is not None and index.doc_centroids is not None
        scores = self._cluster_scores(query) if base is None else base
        clusters = index.doc_centroids[tokens].astype(np.int64)
        return query.packed_scores(index.doc_residuals[tokens], clusters, scores[:, : query.tokens], index.spec.bits)


def _best(documents: NDArray[np.int64], scores: NDArray[np.float32], limit: int) -> Hits:
    """Return the best ``limit`` documents in deterministic order.

    Scores that are not finite, which come from damaged files, are left out.
    """
    sound = np.isfinite(scores)
    documents, scores = documents[sound], scores[sound]
    if len(scores) > limit > 0:
        least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        documents, scores = documents[scores >= least], scores[scores >= least]
    order = np.lexsort((documents, -scores))[:limit]
    return Hits(documents[order], scores[order])
