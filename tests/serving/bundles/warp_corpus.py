"""Small late-interaction indexes, and what their answers are by definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from codequarry.pipelines.indexes.warp.build import WarpPlan, build_index
from codequarry.schemas.bundle.warp import Profile
from codequarry.serving.channels.warp.index import WarpIndex, unpack
from codequarry.serving.channels.warp.query import QueryVectors
from codequarry.serving.channels.warp.search import _TARGET

DIM = 16
SCALES = np.linspace(0.004, 0.009, DIM, dtype=np.float32)
Documents = list[tuple[int, np.ndarray]]


def random_documents(seed: int, count: int, *, longest: int = 20, topics: int = 12) -> Documents:
    """Documents whose tokens lie around a few directions; ids ascend with gaps."""
    random = np.random.default_rng(seed)
    directions = random.standard_normal((topics, DIM))
    documents: Documents = []
    for number in range(count):
        size = int(random.integers(1, longest + 1))
        vectors = directions[random.integers(0, topics, size)] + 0.4 * random.standard_normal((size, DIM))
        documents.append((10 + 3 * number, codes_of(vectors)))
    return documents


def codes_of(vectors: np.ndarray) -> np.ndarray:
    """Codes of the directions of vectors; a zero vector stays one."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = vectors / np.where(norms > 0, norms, 1)
    return np.clip(np.rint(units / SCALES), -127, 127).astype(np.int8)


def random_query(seed: int, tokens: int) -> np.ndarray:
    """(tokens, DIM) float32, unit norm."""
    vectors = np.random.default_rng(seed).standard_normal((tokens, DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def built(folder: Path, documents: Documents, *, profile: Profile = "standard", bits: int = 4) -> WarpIndex:
    """Build an index and open it."""
    folder.mkdir(parents=True, exist_ok=True)
    build_index(folder, documents, WarpPlan(SCALES, "0" * 64, profile=profile, bits=bits))
    return WarpIndex.open(folder, SCALES)


def naive_maxsim(codes: np.ndarray, query: QueryVectors) -> np.float32:
    """Sum over query tokens of the largest similarity, by integers without end."""
    best = [
        max(sum(int(a) * int(b) for a, b in zip(token, asked, strict=True)) for token in codes)
        for asked in query.codes.values
    ]
    return (np.array(best, np.float32) * query.codes.step).sum(dtype=np.float32)


def naive_warp(
    index: WarpIndex, query: QueryVectors, nprobe: int, allowed: np.ndarray | None = None
) -> dict[int, float]:
    """WARP's scores, (WARP section 4, XTR section 3.2), one posting at a time: by document."""
    spec = index.spec
    nprobe = min(nprobe, spec.centroids)
    sizes = np.diff(index.offsets)
    target = max(1, int(_TARGET * nprobe * spec.postings / spec.centroids))
    lowest, step = (np.asarray(row, np.float64) for row in index.levels)
    levels = None if index.residuals is None else unpack(np.asarray(index.residuals), spec.bits)
    totals: dict[int, float] = {}
    missing_in_all = 0.0
    for asked, unit in zip(query.codes.values.astype(np.float64), query.codes.step, strict=True):
        scores = (index.centroids.astype(np.float64) @ asked).astype(np.float32) * unit
        order = np.lexsort((np.arange(len(scores)), -scores))
        seen = np.cumsum(sizes[order])
        missing = float(scores[order[min(int(np.searchsorted(seen, target)), len(order) - 1)]])
        missing_in_all += missing
        best: dict[int, float] = {}
        for cluster in order[:nprobe].tolist():
            for posting in range(int(index.offsets[cluster]), int(index.offsets[cluster + 1])):
                document = int(index.pids[posting])
                if allowed is not None and not allowed[document]:
                    continue
                score = float(scores[cluster])
                if levels is not None:
                    score += float(unit * (asked @ (lowest + step * levels[posting])))
                best[document] = max(best.get(document, -np.inf), score)
        for document, score in best.items():
            totals[document] = totals.get(document, 0.0) + score - missing
    return {document: score + missing_in_all for document, score in totals.items()}
