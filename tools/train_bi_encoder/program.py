"""Program that makes the files of the bi-encoder from the pinned packages."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from tokenizers import Tokenizer

from codequarry.pipelines.adapt.held_out import HeldOut
from codequarry.pipelines.embed.export.minilm import LICENSE, SHIPPED_WEIGHTS, export_weights, shipped_model
from codequarry.pipelines.embed.export.model import measure_agreement
from codequarry.serving.encoders.spec import TOKENIZER_FILE, EncoderSpec, open_encoder
from tools.train_bi_encoder.batches import TokenLists, draw
from tools.train_bi_encoder.bi_encoder_recipe import BiEncoderRecipe
from tools.train_bi_encoder.training import CODE_TOKENS, encode, fine_tune
from tools.train_bi_encoder.trunk import load_parameters
from tools.train_encoder.corpus import collect, held_out
from tools.train_encoder.sources import read_sources

NAME = "codequarry-code-small"
_COMPARED = 500
"""Texts about that many of which say what int8 loses."""


def train(
    target: Path, folder: Path, sources: Path, recipe: BiEncoderRecipe, progress: Callable[[str, int, int], None]
) -> tuple[EncoderSpec, tuple[HeldOut, ...]]:
    """Train a bi-encoder from the pinned packages and write its files.

    Args:
        target: Folder of the encoder.
        folder: Folder that keeps archives, pairs and checkpoints; a second run starts from them.
        sources: List of the packages.
        recipe: Hyperparameters.
        progress: Told of the work done.

    Returns:
        The encoder, and the held-out packages to measure it with.

    Raises:
        UnavailableError: As `sources.fetch` does.
        IntegrityError: As `sources.fetch` and `shipped_model` do.
        MissingExtraError: As `shipped_model` does.
        InvalidArgumentError: There are fewer pairs than a batch has.
    """
    shipped, listed = shipped_model(), read_sources(sources)
    tables = collect(listed.sources, listed.never, folder, progress)
    apart = {source.key: tables[source.key] for source in listed.sources if source.held_out}
    others = {key: tables[key] for key in tables.keys() - apart.keys()}
    rows = draw(others, list(apart.values()), recipe.pairs, recipe.seed)
    parameters = load_parameters(shipped / SHIPPED_WEIGHTS)
    tokenizer = Tokenizer.from_file(str(shipped / TOKENIZER_FILE))
    fine_tune(
        parameters, rows, tokenizer, recipe, folder,
        lambda done, of: progress("training", done, of),
    )  # fmt: skip
    packages = tuple(held_out(source, tables[source.key]) for source in listed.sources if source.held_out)
    source = f"tools.train_bi_encoder, {len(others)} packages, {len(rows)} pairs, seed {recipe.seed}"
    return export(target, parameters, tokenizer, source, [text for one in packages for text in one.corpus]), packages


def export(
    target: Path, parameters: dict[str, torch.Tensor], tokenizer: Tokenizer, source: str, texts: Sequence[str]
) -> EncoderSpec:
    """Write an encoder of trained parameters in int8.

    Args:
        target: Folder of the encoder.
        parameters: See `trunk.load_parameters`.
        tokenizer: Tokenizer of the model.
        source: Where the weights come from.
        texts: Code, some of which says how far the vectors of the int8 graph are from those of the parameters.

    Returns:
        Description of the encoder.
    """
    weights = {name: values.detach().numpy() for name, values in parameters.items()}
    write = partial(
        export_weights, target, weights, shipped_model() / TOKENIZER_FILE,
        name=f"{NAME}-int8", license=LICENSE, source=source, max_tokens=CODE_TOKENS,
    )  # fmt: skip
    write()
    some = list(texts[:: max(len(texts) // _COMPARED, 1)])
    own = encode(parameters, TokenLists.of(tokenizer, some, CODE_TOKENS))
    return write(agreement=measure_agreement("int8", own, open_encoder(target).encode_documents(some)))
