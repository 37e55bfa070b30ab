"""Evaluation of encoders on held-out packages: the documentation of a definition should find its code."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from codequarry.pipelines.adapt.pairs import Row, word_count
from codequarry.serving.encoders.spec import Encoder

QUERIES = 150
CANDIDATES = 1_000
DEPTH = 10
_MIN_QUERY_WORDS = 4
_RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Questions about one package."""

    name: str
    lang: str
    queries: tuple[str, ...]
    """First paragraphs of documentation."""
    corpus: tuple[str, ...]
    """Definitions without their documentation, as they are embedded; entry i answers query i, the rest none."""


def questions(name: str, lang: str, rows: Iterable[Row], *, asked: Callable[[Row], bool] = lambda _: True) -> HeldOut:
    """Draw questions about definitions, with the name as seed.

    Args:
        name: Name of the package.
        lang: Its language.
        rows: Its pairs.
        asked: Predicate of rows that may be asked about; the rest are candidates only.

    Returns:
        Queries and candidates.
    """
    definitions = [row for row in rows if row.kind in ("doc", "name")]
    drawn = random.Random(name)
    alike = Counter(row.text for row in definitions)
    clear = [
        row
        for row in definitions
        if row.kind == "doc" and alike[row.text] == 1 and word_count(row.text) >= _MIN_QUERY_WORDS and asked(row)
    ]
    drawn.shuffle(clear)
    queries = clear[:QUERIES]
    chosen = set(map(id, queries))
    others = [row for row in definitions if id(row) not in chosen]
    drawn.shuffle(others)
    corpus = queries + others[: CANDIDATES - len(queries)]
    return HeldOut(name, lang, tuple(row.text for row in queries), tuple(f"{row.header}\n{row.code}" for row in corpus))


def similarities(encoder: Encoder, package: HeldOut) -> np.ndarray:
    """Return inner products of every query with every definition: (queries, candidates) float32."""
    queries = np.stack([encoder.encode_query(query) for query in package.queries])
    return queries @ encoder.encode_documents(package.corpus).T


def reciprocal_ranks(scores: np.ndarray) -> np.ndarray:
    """Return 1 / rank of each query's own definition, 0 beyond rank 10.

    Args:
        scores: (queries, candidates).

    Returns:
        (queries,) float64.
    """
    own = scores[np.arange(len(scores)), np.arange(len(scores))]
    ranks = 1 + (scores > own[:, None]).sum(axis=1)
    return np.where(ranks <= DEPTH, 1 / ranks, 0.0)


def mean(ranks: Mapping[str, np.ndarray], packages: Sequence[str] | None = None) -> float:
    """Return the mean over packages of the mean over their queries (MRR@10).

    Args:
        ranks: Reciprocal ranks by package.
        packages: Only these packages; all when left out.

    Returns:
        MRR@10.
    """
    return float(np.mean([ranks[name].mean() for name in packages or ranks]))


def interval(
    ranks: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray] | None = None, *, seed: int = 0
) -> tuple[float, float]:
    """Return the 95 % interval of the mean, or of its difference to another's.

    It is a bootstrap over each package's queries.

    Args:
        ranks: Reciprocal ranks by package.
        other: Reciprocal ranks of another encoder for the same queries, so that the difference is a paired one.
        seed: Seed of the bootstrap.

    Returns:
        Lower and upper end.
    """
    drawn = np.random.default_rng(seed)
    means = np.zeros(_RESAMPLES)
    for name, values in ranks.items():
        difference = values if other is None else values - other[name]
        means += difference[drawn.integers(len(values), size=(_RESAMPLES, len(values)))].mean(axis=1)
    low, high = np.quantile(means / len(ranks), [0.025, 0.975])
    return float(low), float(high)
