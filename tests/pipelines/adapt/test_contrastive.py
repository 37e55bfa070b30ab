"""Contrastive training: the gradient against differences, and the same bits every time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codequarry.pipelines.adapt.contrastive import Bags, Recipe, _gradient, _in_runs, bags, train
from codequarry.pipelines.adapt.held_out import reciprocal_ranks
from codequarry.serving.encoders.static import TokenIds
from tools.train_encoder.vocabulary import train_tokenizer


def toy(tokens: int = 40, count: int = 24) -> Bags:
    from scipy import sparse

    drawn = np.random.default_rng(3)
    sides = (drawn.integers(0, 3, (count, tokens)).astype(np.float32) for _ in range(3))
    return Bags(*(sparse.csr_matrix(side) for side in sides))


def test_the_gradient_is_that_of_the_loss() -> None:
    """Central differences of the loss, written a second time, densely and in float64."""
    pairs, recipe = toy(), Recipe(token_dropout=0.0, header_dropout=0.0, temperature=0.3)
    products = np.random.default_rng(5).standard_normal((2, 40, 6)).astype(np.float32)
    rows = np.arange(24)
    texts = np.sqrt(pairs.texts.toarray().astype(float))
    codes = np.sqrt((pairs.codes + pairs.headers).toarray().astype(float))

    def loss(of: np.ndarray) -> float:
        left, right = texts @ of[1], codes @ of[0]
        left /= np.linalg.norm(left, axis=1, keepdims=True)
        right /= np.linalg.norm(right, axis=1, keepdims=True)
        scores = left @ right.T / recipe.temperature
        own = np.diag(scores)
        by_row, by_column = (np.log(np.exp(scores).sum(axis=axis)) - own for axis in (1, 0))
        return float((by_row.mean() + by_column.mean()) / 2)

    found = _gradient(pairs, rows, products, recipe, np.random.default_rng(0))
    for place in [(0, 0, 0), (1, 3, 2), (0, 17, 5), (1, 39, 1)]:
        moved = [products.astype(float), products.astype(float)]
        moved[0][place] += 1e-4
        moved[1][place] -= 1e-4
        expected = (loss(moved[0]) - loss(moved[1])) / 2e-4
        assert found[place] == pytest.approx(expected, abs=2e-5)


def test_training_brings_what_belongs_together_to_the_top_and_repeats_bit_by_bit() -> None:
    subjects = [f"subject{n}" for n in range(60)]
    pairs = [
        (f"about {one} here", f"src/{one}.py", f"code of thing{(7 * n + 3) % 60} value")
        for n, one in enumerate(subjects)
    ]
    tokenizer = train_tokenizer([text for pair in pairs * 3 for text in pair], tokens=600)
    counted = bags([(text, "", code) for text, _, code in pairs], TokenIds(tokenizer), tokenizer.get_vocab_size())
    table = np.random.default_rng(0).standard_normal((tokenizer.get_vocab_size(), 32)).astype(np.float32) / 6
    weights = np.ones(len(table), np.float32)
    recipe = Recipe(epochs=60, batch=30, token_dropout=0.0)

    def ranks(products: np.ndarray) -> float:
        left, right = counted.texts.sqrt() @ products[1], counted.codes.sqrt() @ products[0]
        left /= np.linalg.norm(left, axis=1, keepdims=True)
        right /= np.linalg.norm(right, axis=1, keepdims=True)
        return reciprocal_ranks(left @ right.T).mean()

    first, second = (train(counted, table, weights, recipe) for _ in range(2))
    assert all((one == other).all() for one, other in zip(first, second, strict=True))
    assert first[1].shape == (2, len(table))
    assert ranks(first[1][:, :, None] * first[0]) > 0.9 > 0.3 > ranks(np.stack([table, table]))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=80), st.integers(1, 9), st.integers(0, 5))
def test_pairs_of_a_package_follow_each_other_in_runs(packages: list[int], run: int, seed: int) -> None:
    groups, drawn = np.array(packages), np.random.default_rng(seed)
    shown = drawn.permutation(np.repeat(np.arange(len(groups)), 3))
    order = _in_runs(shown, groups, run, drawn)
    assert sorted(order.tolist()) == sorted(shown.tolist())
    changes = np.count_nonzero(np.diff(groups[order]))
    assert changes < sum(-(-3 * packages.count(one) // run) for one in set(packages))
