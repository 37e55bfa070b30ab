"""The training: symmetric InfoNCE with the other pairs of a batch as negatives, in torch, with checkpoints."""

# pyright: reportMissingImports=false

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from codequarry.pipelines.adapt.pairs import Row
from codequarry.pipelines.store.workspace import replacing
from codequarry.schemas.errors import InvalidArgumentError
from tools.train_bi_encoder.batches import TokenLists, batches
from tools.train_bi_encoder.trunk import unit_vectors

TEXT_TOKENS, CODE_TOKENS = 64, 128
_SAVE_EVERY = 100
"""Steps after which a checkpoint is written."""


@dataclass(frozen=True, slots=True)
class BiEncoderRecipe:
    """Hyperparameters of the training."""

    pairs: int = 120_000
    """Number of pairs, each shown once."""
    batch: int = 128
    rate: float = 2e-4
    """Largest learning rate of AdamW: reached after a tenth of the steps, and falling linearly to 0."""
    decay: float = 0.01
    temperature: float = 0.05
    header_dropout: float = 0.5
    """Share of pairs whose path and name are hidden, so that the model learns to read code."""
    seed: int = 0


def fine_tune(
    parameters: dict[str, torch.Tensor],
    rows: Sequence[Row],
    tokenizer: Any,
    recipe: BiEncoderRecipe,
    checkpoint: Path,
    progress: Callable[[int, int, float], None],
) -> None:
    """Train parameters in place; a checkpoint of the same recipe is gone on with.

    Args:
        parameters: See `trunk.load_parameters`.
        rows: Pairs, those of a language one after the other.
        tokenizer: Tokenizer of the model.
        recipe: Hyperparameters.
        checkpoint: File that the state of the training is kept in.
        progress: Called with steps done, steps in all and the mean loss of the last ones.

    Raises:
        InvalidArgumentError: There are fewer pairs than a batch has.
    """
    shown = random.Random(recipe.seed)
    hidden = [shown.random() < recipe.header_dropout for _ in rows]
    texts = TokenLists.of(tokenizer, [row.text for row in rows], TEXT_TOKENS)
    codes = TokenLists.of(
        tokenizer,
        [row.code if hide else f"{row.header}\n{row.code}" for row, hide in zip(rows, hidden, strict=True)],
        CODE_TOKENS,
    )
    order = list(batches(rows, codes, recipe.batch, recipe.seed))
    if not order:
        raise InvalidArgumentError(
            f"no language has {recipe.batch} pairs, which a step is made of",
            suggestion="list more packages, or make a step smaller with --batch",
        )
    optimizer = torch.optim.AdamW(parameters.values(), recipe.rate, weight_decay=recipe.decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, recipe.rate, len(order) + 1, pct_start=0.1, anneal_strategy="linear", cycle_momentum=False
    )
    done = _restore(checkpoint, recipe, parameters, optimizer, schedule)
    losses: list[float] = []
    for step, numbers in enumerate(order[done:], start=done + 1):
        left, right = (_vectors(parameters, side, numbers) for side in (texts, codes))
        loss = _contrast(left, right, recipe.temperature)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters.values(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        progress(step, len(order), float(np.mean(losses[-_SAVE_EVERY:])))
        if step % _SAVE_EVERY == 0 or step == len(order):
            _save(checkpoint, recipe, step, parameters, optimizer, schedule)


def _vectors(parameters: dict[str, torch.Tensor], side: TokenLists, numbers: np.ndarray) -> torch.Tensor:
    ids, lengths = map(torch.from_numpy, side.padded(numbers))
    with torch.autocast("cpu", torch.bfloat16):
        return unit_vectors(parameters, ids, lengths)


def _contrast(left: torch.Tensor, right: torch.Tensor, temperature: float) -> torch.Tensor:
    """Return the loss of pairs of vectors, (n, d) each: every text has to find its code, and every code its text."""
    similar = left @ right.T / temperature
    own = torch.arange(len(left))
    return (functional.cross_entropy(similar, own) + functional.cross_entropy(similar.T, own)) / 2


def _save(
    file: Path,
    recipe: BiEncoderRecipe,
    step: int,
    parameters: dict[str, torch.Tensor],
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
) -> None:
    state = {
        "recipe": asdict(recipe),
        "step": step,
        "parameters": {name: values.detach() for name, values in parameters.items()},
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
    }
    with replacing(file) as temporary:
        torch.save(state, temporary)


def _restore(
    file: Path,
    recipe: BiEncoderRecipe,
    parameters: dict[str, torch.Tensor],
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
) -> int:
    """Take the state of a checkpoint of the same recipe, and return its number of steps; 0 where there is none."""
    if not file.is_file():
        return 0
    state = torch.load(file, weights_only=True)
    if state["recipe"] != asdict(recipe):
        return 0
    with torch.no_grad():
        for name, values in parameters.items():
            values.copy_(state["parameters"][name])
    optimizer.load_state_dict(state["optimizer"])
    schedule.load_state_dict(state["schedule"])
    return state["step"]
