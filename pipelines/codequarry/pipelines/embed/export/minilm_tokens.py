"""all-MiniLM-L6-v2 as a token encoder: its last layer, projected to fewer dimensions, a unit vector for each token.

The model has no projection of its own. Ours is learned on a constant sample of source text (``token_sample.txt``:
sources of this project), not on the indexed repositories: an encoder that changed with every commit would make every
vector anew. It subtracts the mean of unit vectors, projects to the leading principal axes, and divides each by the
fourth root of its variance. In models of this kind the axes of largest variance say little about meaning. 128
dimensions damped like this rank as well as all 384 (docs/adr/0015 has the numbers).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codequarry.pipelines.embed.export.bert import (
    Graph,
    Weights,
    finished,
    hidden_states,
    text_mask,
    unit_rows,
    write_model,
)
from codequarry.pipelines.embed.export.minilm import (
    DIM,
    LICENSE,
    MINILM,
    NAME,
    POSITIONS,
    SHIPPED_WEIGHTS,
    SOURCE,
    shipped_model,
)
from codequarry.pipelines.embed.half import DOCUMENTS, name_documents
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.serving.encoders.onnx import MODEL_FILE, open_session
from codequarry.serving.encoders.spec import TOKENIZER_FILE, EncoderSpec
from codequarry.serving.encoders.tokens import SCALES_FILE

TOKEN_DIM = 128
_SAMPLE = Path(__file__).with_name("token_sample.txt")
_SAMPLE_CHARS = 1500
_HEADROOM = 1.25
"""Ratio of the largest value of the codes to the largest component of the sample."""


def export_minilm_tokens(directory: Path, *, max_tokens: int = POSITIONS, half: bool = False) -> EncoderSpec:
    """Write the files of a token encoder into ``directory``; the same bytes every time on a machine.

    Args:
        directory: Created when missing; files of the same names are replaced.
        max_tokens: Longest text in tokens, 3 to 512.
        half: Write a float16 graph for the documents besides, as `minilm.export_minilm` does. It has the same
            projection and the same steps of its codes.

    Returns:
        Description of the encoder.

    Raises:
        MissingExtraError: As `minilm.export_minilm` does.
        IntegrityError: As `minilm.export_minilm` does.
        InvalidArgumentError: `max_tokens` is out of range.
    """
    if not 3 <= max_tokens <= POSITIONS:
        raise InvalidArgumentError(f"max_tokens: {max_tokens}, expected 3 to {POSITIONS}", suggestion="leave it at 512")
    shipped = shipped_model()
    directory.mkdir(parents=True, exist_ok=True)

    with tempfile.TemporaryDirectory(dir=directory, prefix="raw-") as raw:
        _write_graph(Path(raw), shipped, POSITIONS, None, "int8")
        sample = np.concatenate(list(_sample_vectors(Path(raw), shipped)))
    middle, projection = damped_axes(sample, TOKEN_DIM)
    scales = scales_of(_unit((sample - middle) @ projection))

    def write(folder: Path, kind: Weights, name: str, documents: str | None = None) -> EncoderSpec:
        folder.mkdir(parents=True, exist_ok=True)
        _write_graph(folder, shipped, max_tokens, (middle, projection), kind)
        np.save(folder / SCALES_FILE, scales, allow_pickle=False)
        shutil.copyfile(shipped / TOKENIZER_FILE, folder / TOKENIZER_FILE)
        return EncoderSpec.seal(
            folder,
            kind="tokens",
            name=name,
            dim=TOKEN_DIM,
            max_tokens=max_tokens,
            license=LICENSE,
            source=SOURCE,
            documents=documents,
        )

    if not half:
        return write(directory, "int8", f"{NAME}-int8-tokens-{TOKEN_DIM}")
    documents = name_documents(write(directory / DOCUMENTS, "float16", f"{NAME}-float16-tokens-{TOKEN_DIM}"))
    return write(directory, "int8", f"{NAME}-float16-int8-queries-tokens-{TOKEN_DIM}", documents)


def sample_pieces() -> list[str]:
    """Return the constant sample of source text, in pieces."""
    text = _SAMPLE.read_text(encoding="utf-8")
    return [text[start : start + _SAMPLE_CHARS] for start in range(0, len(text), _SAMPLE_CHARS)]


def damped_axes(vectors: NDArray[np.float32], dim: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the mean and the projection to principal axes divided by the fourth root of their variance.

    Axes are ordered by descending variance; the largest component of each is positive.

    Args:
        vectors: (n, d) float32, unit norm, n > d.
        dim: Number of axes.

    Returns:
        Mean (d,) and projection (d, dim), float32.
    """
    values = vectors.astype(np.float64)
    middle = values.mean(axis=0)
    values -= middle
    variances, axes = np.linalg.eigh(values.T @ values / len(values))
    variances, axes = variances[::-1][:dim], axes[:, ::-1][:, :dim]
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(dim)])
    return middle.astype(np.float32), (axes * (signs * np.maximum(variances, 1e-12) ** -0.25)).astype(np.float32)


def scales_of(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the step of each dimension's int8 codes.

    Args:
        vectors: (n, d), of a sample.

    Returns:
        (d,) float32, positive.
    """
    largest = np.abs(vectors).max(axis=0)
    return np.maximum(np.minimum(largest * _HEADROOM, 1) / 127, 1e-6).astype(np.float32)


def _write_graph(
    directory: Path,
    shipped: Path,
    max_tokens: int,
    axes: tuple[NDArray[np.float32], NDArray[np.float32]] | None,
    kind: Weights,
) -> None:
    """Write the graph of a token encoder.

    Args:
        directory: Folder of the graph.
        shipped: Folder of the weights.
        max_tokens: Longest text in tokens.
        axes: Mean and projection of unit vectors; None writes those vectors as they are.
        kind: Type of the graph's weights.
    """
    from safetensors.numpy import load_file

    graph = Graph(replace(MINILM, weights=kind))
    mask = text_mask(graph) if kind == "float16" else ""
    last = hidden_states(graph, load_file(shipped / SHIPPED_WEIGHTS), max_tokens, mask)
    dim = DIM
    vectors = unit_rows(graph, last, "unit")
    if axes is not None:
        middle, projection = axes
        dim = projection.shape[1]
        centred = graph.node("Sub", [vectors, graph.constant("middle", middle)], "centred")
        projected = graph.node("MatMul", [centred, graph.constant("projection", projection)], "projected")
        vectors = unit_rows(graph, projected, "vectors")
    write_model(finished(graph, f"{NAME}-tokens", vectors, ["tokens", dim]), directory)


def _sample_vectors(raw: Path, shipped: Path) -> Iterator[NDArray[np.float32]]:
    """Yield unit vectors of the sample's tokens, without special tokens: (t, 384) float32 of each piece."""
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
