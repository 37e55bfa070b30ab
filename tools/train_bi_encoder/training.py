"""The training: symmetric InfoNCE with the other pairs of a batch as negatives, in torch, with checkpoints."""

# pyright: reportMissingImports=false

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from codequarry.pipelines.adapt.pairs import Row
from codequarry.pipelines.store.workspace import replacing
from codequarry.schemas.errors import InvalidArgumentError
from tools.train_bi_encoder.batches import TokenLists, batches
from tools.train_bi_encoder.bi_encoder_recipe import BiEncoderRecipe
from tools.train_bi_encoder.trunk import unit_vectors

TEXT_TOKENS, CODE_TOKENS = 64, 128
_SHORTEST = 20
"""Steps of the shortest schedule: with fewer there is none to rise in."""
_ENCODED = 64
"""Texts that are encoded at once."""
_SAVE_EVERY = 100
"""Steps after which a checkpoint is written."""


def fine_tune(
    parameters: dict[str, torch.Tensor],
    rows: Sequence[Row],
    tokenizer: Any,
    recipe: BiEncoderRecipe,
    folder: Path,
    progress: Callable[[int, int], None],
) -> None:
    """Train parameters in place, from a checkpoint of the same recipe and pairs where there is one.

    Args:
        parameters: See `trunk.load_parameters`.
        rows: Pairs, those of a language one after the other.
        tokenizer: Tokenizer of the model.
        recipe: Hyperparameters.
        folder: Folder of the checkpoints, one for each recipe and choice of pairs.
        progress: Called with steps done and steps in all.

    Raises:
        InvalidArgumentError: There are fewer pairs than a batch has.
    """
    chance = random.Random(recipe.seed)
    hidden = [chance.random() < recipe.header_dropout for _ in rows]
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
        optimizer, recipe.rate, max(len(order) + 1, _SHORTEST),
        pct_start=0.1, anneal_strategy="linear", cycle_momentum=False,
    )  # fmt: skip
    checkpoint = folder / f"bi-encoder-{_digest(recipe, texts, codes, order)}.pt"
    done = _restore(checkpoint, parameters, optimizer, schedule)
    for step, numbers in enumerate(order[done:], start=done + 1):
        left, right = (_vectors(parameters, side, numbers) for side in (texts, codes))
        loss = _contrast(left, right, recipe.temperature)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters.values(), 1.0)
        optimizer.step()
        schedule.step()
        progress(step, len(order))
        if step % _SAVE_EVERY == 0 or step == len(order):
            _save(checkpoint, step, parameters, optimizer, schedule)


def encode(parameters: dict[str, torch.Tensor], texts: TokenLists) -> np.ndarray:
    """Return the vectors of texts, in float32.

    Args:
        parameters: See `trunk.load_parameters`.
        texts: (n) texts.

    Returns:
        (n, 384) float32.
    """
    parts = np.array_split(np.arange(len(texts.starts) - 1), len(texts.starts) // _ENCODED + 1)
    with torch.no_grad():
        made = [unit_vectors(parameters, *map(torch.from_numpy, texts.padded(part))) for part in parts if len(part)]
    return torch.cat(made).numpy()


def _vectors(parameters: dict[str, torch.Tensor], side: TokenLists, numbers: np.ndarray) -> torch.Tensor:
    ids, lengths = map(torch.from_numpy, side.padded(numbers))
    with torch.autocast("cpu", torch.bfloat16):
        return unit_vectors(parameters, ids, lengths)


def _contrast(left: torch.Tensor, right: torch.Tensor, temperature: float) -> torch.Tensor:
    """Return the loss of pairs of vectors, (n, d) each: every text has to find its code, and every code its text."""
    similar = left @ right.T / temperature
    own = torch.arange(len(left))
    return (functional.cross_entropy(similar, own) + functional.cross_entropy(similar.T, own)) / 2


def _digest(recipe: BiEncoderRecipe, texts: TokenLists, codes: TokenLists, order: Sequence[np.ndarray]) -> str:
    """Return a name of all that decides what a training makes."""
    digest = hashlib.sha256(json.dumps(asdict(recipe), sort_keys=True).encode())
    for values in (texts.ids, texts.starts, codes.ids, codes.starts, np.concatenate(order)):
        digest.update(values.tobytes())
    return digest.hexdigest()[:12]


def _save(
    file: Path,
    step: int,
    parameters: dict[str, torch.Tensor],
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
) -> None:
    state = {
        "step": step,
        "parameters": {name: values.detach() for name, values in parameters.items()},
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
    }
    with replacing(file) as temporary:
        torch.save(state, temporary)


def _restore(
    file: Path,
    parameters: dict[str, torch.Tensor],
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
) -> int:
    """Take the state of a checkpoint, and return its number of steps; 0 where there is none."""
    if not file.is_file():
        return 0
    state = torch.load(file, weights_only=True)
    with torch.no_grad():
        for name, values in parameters.items():
            values.copy_(state["parameters"][name])
    optimizer.load_state_dict(state["optimizer"])
    schedule.load_state_dict(state["schedule"])
    return state["step"]
