"""Sparse documents and queries, and the score by definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from codequarry.pipelines.indexes.splade.build import SpladePlan, build_splade
from codequarry.serving.channels.splade_index import SpladeIndex
from codequarry.serving.encoders.sparse import Impacts, SparseQuery

Documents = list[tuple[int, Impacts]]
ENCODER, QUERIES = "a" * 64, "b" * 64


def impacts(entries: dict[int, int]) -> Impacts:
    terms = sorted(entries)
    return Impacts(np.array(terms, np.int32), np.array([entries[term] for term in terms], np.uint8))


def query(entries: dict[int, int], step: float = 0.5) -> SparseQuery:
    terms = sorted(entries)
    weights = np.array([entries[term] for term in terms], np.int32)
    return SparseQuery(np.array(terms, np.int32), weights, step, frozenset(), False)


def naive(
    documents: Documents, asked: SparseQuery, limit: int, allowed: set[int] | None = None
) -> list[tuple[int, int]]:
    """(chunk id, score in steps) of the best documents above 0, equal ones by id, in Python's numbers."""
    weights = dict(zip(asked.terms.tolist(), asked.weights.tolist(), strict=True))
    scores = {
        chunk_id: sum(
            weights.get(term, 0) * impact
            for term, impact in zip(found.terms.tolist(), found.impacts.tolist(), strict=True)
        )
        for chunk_id, found in documents
        if allowed is None or chunk_id in allowed
    }
    ranked = sorted(((-score, chunk_id) for chunk_id, score in scores.items() if score > 0))
    return [(chunk_id, -score) for score, chunk_id in ranked[:limit]]


def plan(vocabulary: int, **changes: object) -> SpladePlan:
    return SpladePlan(vocabulary, 0.25, ENCODER, QUERIES, **changes)  # pyright: ignore[reportArgumentType]


def built(folder: Path, documents: Documents, vocabulary: int, **changes: object) -> SpladeIndex:
    folder.mkdir(parents=True, exist_ok=True)
    build_splade(folder, documents, plan(vocabulary, **changes))
    return SpladeIndex.open(folder)


def zipf_documents(seed: int, count: int, vocabulary: int, terms: int) -> Documents:
    """Documents whose terms are drawn by Zipf's law, with ids far apart."""
    random = np.random.default_rng(seed)
    shares = 1 / (np.arange(vocabulary) + 5) ** 1.1
    shares /= shares.sum()
    ids = np.sort(random.choice(1 << 40, count, replace=False))
    found: Documents = []
    for chunk_id in ids.tolist():
        own = np.unique(random.choice(vocabulary, terms, p=shares)).astype(np.int32)
        found.append((chunk_id, Impacts(own, random.integers(1, 256, len(own)).astype(np.uint8))))
    return found
