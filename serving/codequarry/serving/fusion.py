"""Weighted reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009), normalized to (0, 1]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from codequarry.serving.channels import Candidates


@dataclass(frozen=True, slots=True)
class Part:
    """What one channel gave to a fused result."""

    rank: int
    """1-based."""
    score: float
    weight: float


@dataclass(frozen=True, slots=True)
class Fused:
    """One chunk after the fusion; ``score`` follows from ``parts``, the ranking's k and its normalizer."""

    chunk_id: int
    score: float
    parts: dict[str, Part]

    def leader(self, k: float) -> str:
        """The channel that contributed most; the first by name among equals."""
        return min(self.parts, key=lambda name: (-self.parts[name].weight / (k + self.parts[name].rank), name))


@dataclass(frozen=True, slots=True)
class Ranking:
    """Fused results, best first, equal scores by ascending chunk id."""

    results: tuple[Fused, ...]
    k: float
    normalizer: float
    """What a chunk ranked first by every channel that answered would sum up to."""


def fuse(answers: Mapping[str, Candidates], weights: Mapping[str, float], *, k: float) -> Ranking:
    """Sum ``weight / (k + rank)`` over the channels that found a chunk, divided by the best sum possible.

    answers: candidates of every channel that was asked and answered, even with nothing.
    weights: positive weight of each of them.
    k: damps the difference between neighbouring ranks; positive.

    >>> import numpy as np
    >>> one = Candidates(np.array([7, 8]), np.array([0.9, 0.5]))
    >>> [(row.chunk_id, round(row.score, 3)) for row in fuse({"faiss": one}, {"faiss": 1.0}, k=60).results]
    [(7, 1.0), (8, 0.984)]
    """
    parts: dict[int, dict[str, Part]] = {}
    # Channels in the order of their names, so that floating-point sums do not depend on who answered first.
    for name in sorted(answers):
        found = answers[name]
        for rank, (chunk_id, score) in enumerate(
            zip(found.chunk_ids.tolist(), found.scores.tolist(), strict=True), start=1
        ):
            parts.setdefault(chunk_id, {})[name] = Part(rank, score, weights[name])
    normalizer = sum(weights[name] / (k + 1) for name in sorted(answers))
    fused = [
        Fused(chunk_id, sum(part.weight / (k + part.rank) for part in found.values()) / normalizer, found)
        for chunk_id, found in parts.items()
    ]
    fused.sort(key=lambda row: (-row.score, row.chunk_id))
    return Ranking(tuple(fused), k, normalizer)
