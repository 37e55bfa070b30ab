"""From the pinned packages to the files of the bi-encoder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from codequarry.pipelines.adapt.held_out import HeldOut
from codequarry.pipelines.embed.export.minilm import LICENSE, SHIPPED_WEIGHTS, export_weights, shipped_model
from codequarry.serving.encoders.spec import TOKENIZER_FILE, EncoderSpec
from tools.train_bi_encoder.batches import draw
from tools.train_bi_encoder.training import CODE_TOKENS, BiEncoderRecipe, fine_tune
from tools.train_bi_encoder.trunk import load_parameters
from tools.train_encoder.corpus import collect, held_out
from tools.train_encoder.sources import read_sources

NAME = "codequarry-code-small"
CHECKPOINT = "bi-encoder.pt"
"""File of the folder that keeps packages and pairs."""


def train(
    target: Path, folder: Path, sources: Path, recipe: BiEncoderRecipe, progress: Callable[[str, int, int], None]
) -> tuple[EncoderSpec, tuple[HeldOut, ...]]:
    """Train a bi-encoder from the pinned packages and write its files.

    Args:
        target: Folder of the encoder.
        folder: Folder that keeps archives, pairs and the checkpoint; a second run starts from them.
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
    from tokenizers import Tokenizer

    shipped, listed = shipped_model(), read_sources(sources)
    tables = collect(listed.sources, listed.never, folder, progress)
    apart = {source.key: tables[source.key] for source in listed.sources if source.held_out}
    others = {key: tables[key] for key in tables.keys() - apart.keys()}
    rows = draw(others, list(apart.values()), recipe.pairs, recipe.seed)
    parameters = load_parameters(shipped / SHIPPED_WEIGHTS)
    tokenizer = Tokenizer.from_file(str(shipped / TOKENIZER_FILE))
    fine_tune(
        parameters, rows, tokenizer, recipe, folder / CHECKPOINT,
        lambda done, of, loss: progress(f"training, loss {loss:.2f}", done, of),
    )  # fmt: skip
    weights = {name: values.detach().numpy() for name, values in parameters.items()}
    source = f"tools.train_bi_encoder, {len(others)} packages, {len(rows)} pairs, seed {recipe.seed}"
    spec = export_weights(
        target, weights, shipped / TOKENIZER_FILE,
        name=f"{NAME}-int8", license=LICENSE, source=source, max_tokens=CODE_TOKENS,
    )  # fmt: skip
    packages = tuple(held_out(source, tables[source.key]) for source in listed.sources if source.held_out)
    return spec, packages
