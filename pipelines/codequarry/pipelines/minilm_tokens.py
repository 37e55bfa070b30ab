"""all-MiniLM-L6-v2 as a token encoder: its last layer, projected to fewer dimensions, a unit vector for each token.

The model has no projection of its own. Ours is learned on a sample of source text that never changes
(``token_sample.txt``: sources of this project), not on the indexed repositories: an encoder that changed with every
commit would make every vector anew. It takes the mean of unit vectors off, goes to the leading principal axes, and
divides each by the fourth root of its variance: the loudest axes of such models say little of meaning, and 128
dimensions damped like this rank as well as all 384 (docs/adr/0015 has the numbers).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codequarry.pipelines.minilm import (
    DIM,
    POSITIONS,
    SHIPPED_WEIGHTS,
    Graph,
    finished,
    hidden_states,
    shipped_model,
    write_model,
)
from codequarry.schemas.encoder import TOKENIZER_FILE, EncoderSpec
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.onnx_encoder import MODEL_FILE, open_session
from codequarry.schemas.token_encoder import SCALES_FILE

TOKEN_DIM = 128
_SAMPLE = Path(__file__).with_name("token_sample.txt")
_SAMPLE_CHARS = 1500
_HEADROOM = 1.25
"""Codes reach so much further than the largest component of the sample."""


def export_minilm_tokens(directory: Path, *, max_tokens: int = POSITIONS) -> EncoderSpec:
    """Write the files of a token encoder into ``directory``; the same bytes every time on a machine.

    directory: created when missing; files of the same names are replaced. max_tokens: longest text, 3 to 512.

    Raises as `minilm.export_minilm`.
    """
    if not 3 <= max_tokens <= POSITIONS:
        raise InvalidArgumentError(f"max_tokens: {max_tokens}, expected 3 to {POSITIONS}", suggestion="leave it at 512")
    shipped = shipped_model()
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix="raw-") as raw:
        _write_graph(Path(raw), shipped, POSITIONS, None)
        sample = np.concatenate(list(_sample_vectors(Path(raw), shipped)))
    middle, projection = damped_axes(sample, TOKEN_DIM)
    _write_graph(directory, shipped, max_tokens, (middle, projection))
    projected = _unit((sample - middle) @ projection)
    np.save(directory / SCALES_FILE, scales_of(projected), allow_pickle=False)
    shutil.copyfile(shipped / TOKENIZER_FILE, directory / TOKENIZER_FILE)
    return EncoderSpec.seal(
        directory,
        kind="tokens",
        name=f"all-MiniLM-L6-v2-int8-tokens-{TOKEN_DIM}",
        dim=TOKEN_DIM,
        max_tokens=max_tokens,
        license="Apache-2.0",
        source="https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
    )


def sample_pieces() -> list[str]:
    """The sample of source text that never changes, in pieces."""
    text = _SAMPLE.read_text(encoding="utf-8")
    return [text[start : start + _SAMPLE_CHARS] for start in range(0, len(text), _SAMPLE_CHARS)]


def damped_axes(vectors: NDArray[np.float32], dim: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean (d,) and projection (d, dim), float32, to principal axes divided by the fourth root of their variance.

    vectors: (n, d) float32, unit norm, n > d. Axes by descending variance; the largest component of each is positive.
    """
    values = vectors.astype(np.float64)
    middle = values.mean(axis=0)
    values -= middle
    variances, axes = np.linalg.eigh(values.T @ values / len(values))
    variances, axes = variances[::-1][:dim], axes[:, ::-1][:, :dim]
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(dim)])
    return middle.astype(np.float32), (axes * (signs * np.maximum(variances, 1e-12) ** -0.25)).astype(np.float32)


def scales_of(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The step of each dimension's int8 codes: (d,) float32, positive. vectors: (n, d), of a sample."""
    largest = np.abs(vectors).max(axis=0)
    return np.maximum(np.minimum(largest * _HEADROOM, 1) / 127, 1e-6).astype(np.float32)


def _write_graph(
    directory: Path,
    shipped: Path,
    max_tokens: int,
    axes: tuple[NDArray[np.float32], NDArray[np.float32]] | None,
) -> None:
    """axes: mean and projection of unit vectors; None writes those vectors as they are."""
    from safetensors.numpy import load_file

    graph = Graph()
    last = hidden_states(graph, load_file(shipped / SHIPPED_WEIGHTS), max_tokens)
    dim = DIM
    vectors = graph.node("LpNormalization", [last], "unit", axis=-1, p=2)
    if axes is not None:
        middle, projection = axes
        dim = projection.shape[1]
        centred = graph.node("Sub", [vectors, graph.constant("middle", middle)], "centred")
        projected = graph.node("MatMul", [centred, graph.constant("projection", projection)], "projected")
        vectors = graph.node("LpNormalization", [projected], "vectors", axis=-1, p=2)
    write_model(finished(graph, "all-MiniLM-L6-v2-tokens", vectors, [1, "tokens", dim]), directory)


def _sample_vectors(raw: Path, shipped: Path) -> Iterator[NDArray[np.float32]]:
    """Unit vectors of the sample's tokens, the model's marks left out: (t, 384) float32 of each piece."""
    from tokenizers import Tokenizer

    session = open_session(raw / MODEL_FILE, (None, DIM))
    tokenizer = Tokenizer.from_file(str(shipped / TOKENIZER_FILE))
    tokenizer.no_padding()
    tokenizer.enable_truncation(POSITIONS)
    for piece in sample_pieces():
        ids = np.array([tokenizer.encode(piece).ids], np.int64)
        output = np.asarray(session.run(None, {"input_ids": ids})[0])
        yield output[0][1:-1]


def _unit(vectors: np.ndarray) -> NDArray[np.float32]:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
