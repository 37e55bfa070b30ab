"""Hyperparameters of the bi-encoder's training, apart from what needs torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BiEncoderRecipe:
    """Hyperparameters of the training."""

    pairs: int = 120_000
    """Number of pairs, each shown once."""
    batch: int = 128
    rate: float = 2e-4
    """Largest learning rate of AdamW: it rises linearly from a 25th for a tenth of the steps, then falls to 0."""
    decay: float = 0.01
    temperature: float = 0.05
    header_dropout: float = 0.5
    """Share of pairs whose path and name are hidden, so that the model learns to read code."""
    seed: int = 0
