"""Learning a table of token vectors from pairs: symmetric InfoNCE with in-batch negatives, in NumPy and SciPy.

A text is the vector of its token counts c; its embedding is the unit vector along ``sqrt(c) @ (w * E)`` with a table E
and a weight w for each token, which is another one in code than in a text that asks for it. In each batch every text
has to find its own code among all codes, and every code its text (van den Oord et al. 2018; Radford et al. 2021). The
gradient is short enough to be written out, so that no framework is needed, also on a user's machine.
"""

# pyright: reportMissingTypeStubs=false
# SciPy ships no type stubs.

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from codequarry.serving.encoders.static import TokenIds

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True, slots=True)
class Bags:
    """Token counts of n pairs: SciPy CSR matrices, (n, v) float32 each."""

    texts: Any
    headers: Any
    codes: Any


@dataclass(frozen=True, slots=True)
class Recipe:
    """Hyperparameters of training; the defaults did best on validation packages (see the model card)."""

    epochs: int = 1
    batch: int = 2_048
    rate: float = 0.05
    """Learning rate of Adam, falling linearly to 0."""
    weight_rate: float = 0.5
    """Learning rate of the token weights, relative to that of the table."""
    temperature: float = 0.05
    token_dropout: float = 0.1
    header_dropout: float = 0.5
    """Share of pairs whose path and name are hidden, so that the model learns to read code."""
    documented: int = 3
    """Times an epoch shows a pair of documentation and code, while it shows others once."""
    run: int = 1_024
    """Pairs of one package that follow each other, where packages are known: a batch then asks to tell them apart."""
    seed: int = 0


def bags(rows: Iterable[tuple[str, str, str]], ids: TokenIds, tokens: int) -> Bags:
    """Count the tokens of (text, header, code)."""
    columns = zip(*rows, strict=True)
    return Bags(*(_counts(column, ids, tokens) for column in columns))


def _counts(texts: Iterable[str], ids: TokenIds, tokens: int) -> Any:
    from scipy import sparse

    indices: list[int] = []
    values: list[int] = []
    starts = [0]
    for text in texts:
        found = ids.counts(text)
        indices += found.keys()
        values += found.values()
        starts.append(len(indices))
    shape = (len(starts) - 1, tokens)
    return sparse.csr_matrix((np.array(values, np.float32), np.array(indices, np.int32), np.array(starts)), shape)


def train(
    pairs: Bags,
    table: np.ndarray,
    weights: np.ndarray,
    recipe: Recipe,
    *,
    times: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Train a table and weights on pairs; the same arguments give the same bits on one machine.

    Args:
        pairs: Token counts of the pairs.
        table: (v, d) float32; stays unchanged.
        weights: (2, v) float32 in code and in texts, positive, or (v,) to begin with for both; stay unchanged.
        recipe: Hyperparameters.
        times: (n,) int, times an epoch shows each pair; None for once.
        groups: (n,) int from 0 on, package of each pair; None when all are of one.
        progress: Called with steps done and planned.

    Returns:
        Trained table, (v, d), and weights, (2, v) in code and in texts.
    """
    shown = np.arange(pairs.texts.shape[0])
    if times is not None:
        shown = np.repeat(shown, times)
    count = len(shown)
    batch = min(recipe.batch, count)
    planned = recipe.epochs * (count // batch)
    random = np.random.default_rng(recipe.seed)
    table = table.astype(np.float32)
    logs = np.log(np.broadcast_to(weights, (2, len(table))), dtype=np.float32)
    of_table, of_logs = _Adam(table), _Adam(logs)
    done = 0
    for _ in range(recipe.epochs):
        order = random.permutation(shown)
        if groups is not None:
            order = _in_runs(order, groups, recipe.run, random)
        for start in range(0, count - batch + 1, batch):
            left = 1 - done / planned
            rows = np.sort(order[start : start + batch])
            weights = np.exp(logs)
            slopes = _gradient(pairs, rows, weights[:, :, None] * table, recipe, random)
            of_weights = (slopes * table).sum(axis=2) * weights
            slopes *= weights[:, :, None]
            of_table.step(slopes.sum(axis=0), recipe.rate * left)
            of_logs.step(of_weights, recipe.rate * recipe.weight_rate * left)
            done += 1
            if progress is not None:
                progress(done, planned)
    return table, np.exp(logs)


def _in_runs(shuffled: np.ndarray, groups: np.ndarray, run: int, random: np.random.Generator) -> np.ndarray:
    """Lay pairs of a group beside each other, in runs that are shuffled.

    Args:
        shuffled: (m,) indexes of pairs.
        groups: (n,) int from 0 on, group of each pair.
        run: Most pairs of a run.
        random: Source of the order of runs.

    Returns:
        (m,) the same indexes.
    """
    beside = shuffled[np.argsort(groups[shuffled], kind="stable")]
    first = np.flatnonzero(np.diff(groups[beside], prepend=-1))
    position = np.arange(len(beside)) - np.repeat(first, np.diff(first, append=len(beside)))
    runs = np.split(beside, np.flatnonzero(position % run == 0)[1:])
    return np.concatenate([runs[at] for at in random.permutation(len(runs))])


def _gradient(
    pairs: Bags, rows: np.ndarray, products: np.ndarray, recipe: Recipe, random: np.random.Generator
) -> np.ndarray:
    """Return the gradient of the loss over one batch with respect to ``w * E``, in code and in texts.

    Args:
        pairs: Token counts of all pairs.
        rows: Indexes of the pairs in the batch.
        products: ``w * E`` in code and in texts, (2, v, d).
        recipe: Hyperparameters.
        random: Source of dropout.

    Returns:
        (2, v, d) float32.
    """
    from scipy import sparse

    shown = (random.random(len(rows)) >= recipe.header_dropout).astype(np.float32)
    texts = _roots(pairs.texts[rows], recipe, random)
    codes = _roots(pairs.codes[rows] + sparse.diags(shown) @ pairs.headers[rows], recipe, random)
    (left, left_norm), (right, right_norm) = _unit(texts @ products[1]), _unit(codes @ products[0])
    similar = left @ right.T
    similar /= recipe.temperature
    slope = _softmax(similar, 1)
    slope += _softmax(similar, 0)
    slope /= 2 * len(rows)
    slope[np.arange(len(rows)), np.arange(len(rows))] -= 1 / len(rows)
    slope /= recipe.temperature
    of_texts = texts.T.tocsr() @ _before_unit(slope @ right, left, left_norm)
    of_codes = codes.T.tocsr() @ _before_unit(slope.T @ left, right, right_norm)
    return np.stack([of_codes, of_texts])


def _roots(counts: Any, recipe: Recipe, random: np.random.Generator) -> Any:
    roots = counts.tocsr()
    roots.data = np.sqrt(roots.data, dtype=np.float32) * (random.random(len(roots.data)) >= recipe.token_dropout)
    return roots


def _unit(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True) + np.float32(1e-6)
    return vectors / norms, norms


def _before_unit(slope: np.ndarray, unit: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Return the gradient through the normalization of rows."""
    return (slope - unit * (slope * unit).sum(axis=1, keepdims=True)) / norms


def _softmax(values: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(values - values.max(axis=axis, keepdims=True))
    powers /= powers.sum(axis=axis, keepdims=True)
    return powers


class _Adam:
    """Adam (Kingma and Ba 2015), changing an array in place."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values
        self._first = np.zeros_like(values)
        self._second = np.zeros_like(values)
        self._scratch = np.empty_like(values)
        self._steps = 0

    def step(self, gradient: np.ndarray, rate: float) -> None:
        """Make one step against a gradient of the array's shape."""
        self._steps += 1
        scratch = self._scratch
        self._first *= _BETA_1
        np.multiply(gradient, 1 - _BETA_1, out=scratch)
        self._first += scratch
        np.multiply(gradient, gradient, out=scratch)
        scratch *= 1 - _BETA_2
        self._second *= _BETA_2
        self._second += scratch
        np.sqrt(self._second, out=scratch)
        scratch /= np.sqrt(1 - _BETA_2**self._steps)
        scratch += _EPSILON
        np.divide(self._first, scratch, out=scratch)
        scratch *= rate / (1 - _BETA_1**self._steps)
        self._values -= scratch
