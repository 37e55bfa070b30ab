"""Training of an encoder, from the pinned packages to its files and figures."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from codequarry.pipelines.adapt.contrastive import Bags, Recipe, bags, train
from codequarry.pipelines.adapt.held_out import HeldOut, reciprocal_ranks, similarities
from codequarry.pipelines.embed.export.minilm import export_minilm
from codequarry.pipelines.embed.export.static import export_static
from codequarry.pipelines.store.workspace import Progress, silent
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.resources import available_cores
from codequarry.serving.encoders.spec import Encoder, EncoderSpec, open_encoder
from codequarry.serving.encoders.static import TokenIds
from tools.train_encoder.corpus import collect, held_out, select
from tools.train_encoder.sources import PINNED, read_sources
from tools.train_encoder.vocabulary import train_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NAME = "codequarry-static-code"
DIM = 256
_NEEDED = {"scipy": "train", "onnxruntime": "models"}
"""Modules, and the extras that bring them."""
_TEACHER_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Trained:
    """Results of a training: the encoder, its pairs, times and held-out packages."""

    spec: EncoderSpec
    pairs: Counter[tuple[str, str]]
    """By language and kind."""
    cpu_seconds: dict[str, float]
    """By step, of this process; those of finding pairs are the workers'."""
    packages: tuple[HeldOut, ...]
    """Held-out packages to measure it with."""


def train_encoder(
    target: Path,
    folder: Path,
    *,
    sources: Path = PINNED,
    recipe: Recipe | None = None,
    progress: Progress = silent,
) -> Trained:
    """Train an encoder from the pinned packages and write its files.

    The same list and seed give the same bytes on one machine.

    Args:
        target: Folder of the encoder.
        folder: Folder that keeps archives and pairs; a second run starts from them.
        sources: List of the packages.
        recipe: Settings of the training; None for the defaults.
        progress: Told of the work done.

    Returns:
        The encoder and its figures.

    Raises:
        UnavailableError: As `sources.fetch` does.
        IntegrityError: As `sources.fetch` does.
        MissingExtraError: The extras ``train`` and ``models`` are needed.
        InvalidArgumentError: There is nothing to learn from.
    """
    for module, extra in _NEEDED.items():
        if find_spec(module) is None:
            raise missing_extra("training an encoder", extra, missing=module)
    recipe = recipe or Recipe()
    seconds: dict[str, float] = {}
    listed = read_sources(sources)
    with _timed("find pairs", seconds):
        tables = collect(listed.sources, listed.never, folder, progress)
    apart = {source.key: tables[source.key] for source in listed.sources if source.held_out}
    with _timed("select pairs", seconds):
        chosen = select({key: tables[key] for key in tables.keys() - apart.keys()}, apart.values(), recipe.seed)
    rows = [row for _, row in chosen]
    if not rows:
        raise InvalidArgumentError(
            f"{sources}: no pair of documentation and code in its packages", suggestion="list packages of source code"
        )
    with _timed("vocabulary", seconds):
        progress("learning the vocabulary", 0, 1)
        tokenizer = train_tokenizer(text for row in rows for text in (row.text, row.code))
        progress("learning the vocabulary", 1, 1)
    with _timed("count tokens", seconds):
        ids = TokenIds(tokenizer)
        pairs = bags(((row.text, row.header, row.code) for row in rows), ids, tokenizer.get_vocab_size())
    with _timed("initial table", seconds):
        progress("reading the vocabulary with MiniLM", 0, 1)
        table = initial_table(tokenizer, teacher(folder))
        progress("reading the vocabulary with MiniLM", 1, 1)
    times = np.array([recipe.documented if row.kind == "doc" else 1 for row in rows])
    packages = np.unique([key for key, _ in chosen], return_inverse=True)[1]
    with _timed("train", seconds):
        table, weights = train(
            pairs, table, inverse_frequencies(pairs), recipe,
            times=times, groups=packages, progress=lambda done, of: progress("training", done, of),
        )  # fmt: skip
    # The earlier name of this program, so that the shipped encoder.json is made again byte for byte.
    source = f"codequarry train-encoder, {len(listed.sources) - len(apart)} packages, seed {recipe.seed}"
    spec = export_static(target, tokenizer, table, weights, name=NAME, source=source)
    measured = tuple(held_out(source, tables[source.key]) for source in listed.sources if source.held_out)
    return Trained(spec, Counter((row.lang, row.kind) for row in rows), seconds, measured)


def teacher(folder: Path) -> Encoder:
    """Return all-MiniLM-L6-v2, which the table begins with and is compared to."""
    directory = folder / "minilm"
    if not (directory / "encoder.json").is_file():
        export_minilm(directory, max_tokens=_TEACHER_TOKENS)
    return open_encoder(directory, threads=available_cores())


def initial_table(tokenizer: Tokenizer, encoder: Encoder) -> np.ndarray:
    """Return the vectors that another encoder makes of each token, (v, d) float32.

    Their mean is removed, and they lie along their principal directions.
    """
    tokens = [tokenizer.id_to_token(one) or "" for one in range(tokenizer.get_vocab_size())]
    vectors = encoder.encode_documents(tokens)
    vectors -= vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(vectors, full_matrices=False)
    table = vectors @ directions[:DIM].T
    return table / (np.linalg.norm(table, axis=1, keepdims=True) + np.float32(1e-9))


def inverse_frequencies(pairs: Bags) -> np.ndarray:
    """Return each token's weight before it is learned, by the share of texts it is in: (v,) float32, 1 on average."""
    count, tokens = pairs.texts.shape
    frequency = sum(np.bincount(side.indices, minlength=tokens) for side in (pairs.texts, pairs.codes))
    inverse = np.log((2 * count + 1) / (frequency + 1))
    return (inverse / inverse.mean()).astype(np.float32)


def measure_ranks(encoder: Encoder, packages: Sequence[HeldOut], progress: Progress = silent) -> dict[str, np.ndarray]:
    """Return reciprocal ranks of every query, by package."""
    ranks: dict[str, np.ndarray] = {}
    for done, package in enumerate(packages, start=1):
        ranks[package.name] = reciprocal_ranks(similarities(encoder, package))
        progress(f"measuring {encoder.spec.name}", done, len(packages))
    return ranks


@contextmanager
def _timed(step: str, seconds: dict[str, float]) -> Iterator[None]:
    """Note the CPU seconds of a block, those of child processes that ended in it too."""
    began = _cpu()
    yield
    seconds[step] = _cpu() - began


def _cpu() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
