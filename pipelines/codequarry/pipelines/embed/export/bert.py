"""BERT (Devlin et al. 2019) as an ONNX graph, spelled out operator by operator from its weights, without torch.

On a CPU the runtime runs one unpadded text at a time, so tokens attend to all others, unless ``attended`` names those
they attend to. Weights are int8 with one scale per output column (word embeddings: one per row), or float32 as they
are.

With float16 weights the graph is one for GPUs (`codequarry.pipelines.embed.half`): weights and activations have half
precision, and a run takes many texts of unequal length. Tokens of number `PADDING` fill them up, and no token attends
to those.

Scales leave head-room so that no pair of products overflows the 16-bit sums of CPUs without VNNI: integer products are
exact on every x86-64 CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from codequarry.pipelines.embed.half import PADDING
from codequarry.serving.encoders.onnx import MODEL_FILE, WEIGHTS_FILE

if TYPE_CHECKING:
    import onnx

_MAPPED_BYTES = 65_536
"""Least size of tensors that are memory-mapped."""
Weights = Literal["int8", "float32", "float16"]
"""Type of a graph's weights."""


@dataclass(frozen=True, slots=True)
class Bert:
    """Shape of a BERT, and what its export needs to know beside the weights."""

    layers: int
    heads: int
    epsilon: float = 1e-12
    weights: Weights = "int8"
    loud_hidden: Mapping[int, int] | None = None
    """Divisors of units with large activations, inputs of every layer's first feed-forward matrix."""
    loud_gelu: Sequence[Mapping[int, int]] = ()
    """The same for outputs of the GELU, layer by layer."""


class Graph:
    """Nodes and constants of a graph under construction."""

    def __init__(self, bert: Bert = Bert(layers=0, heads=0)) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.bert = bert

    def constant(self, name: str, values: np.ndarray) -> str:
        """Add a constant and return its name."""
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def real(self, name: str, values: np.ndarray) -> str:
        """Add a constant of the type of the activations, float16 or float32, and return its name."""
        return self.constant(name, values.astype(np.float16 if self.bert.weights == "float16" else np.float32))

    def node(self, operator: str, inputs: list[str], *outputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node and return its first output."""
        from onnx import helper

        self.nodes.append(helper.make_node(operator, inputs, list(outputs), domain=domain, **attributes))
        return outputs[0]

    def layer_norm(self, x: str, weights: Mapping[str, np.ndarray], name: str) -> str:
        # Not the fused SkipLayerNormalization: on CPU it costs six times as much as Add and LayerNormalization.
        gain = self.real(f"{name}.weight", weights[f"{name}.weight"])
        bias = self.real(f"{name}.bias", weights[f"{name}.bias"])
        return self.node("LayerNormalization", [x, gain, bias], name, axis=-1, epsilon=self.bert.epsilon)

    def linear(
        self, x: str, matrix: np.ndarray, bias: np.ndarray, name: str, loud: Mapping[int, int] | None = None
    ) -> str:
        """Add ``x @ matrix + bias``, in the type of the weights.

        Args:
            x: Name of the input, (n, t, k), of the type of the activations.
            matrix: (k, m) float32.
            bias: (m,) float32.
            name: Name of the output.
            loud: Divisor by unit (row of the matrix) with large activations; for int8 only.

        Returns:
            Name of the output, (n, t, m), of the type of the activations.
        """
        if self.bert.weights != "int8":
            product = self.node("MatMul", [x, self.real(f"{name}.weight", matrix)], f"{name}.product")
            return self.node("Add", [product, self.real(f"{name}.bias", bias)], name)
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


def hidden_states(graph: Graph, weights: Mapping[str, np.ndarray], max_tokens: int, attended: str = "") -> str:
    """Add embeddings and all layers: (n, t, d) of ``input_ids``, n = 1 but for float16 weights.

    Args:
        graph: Graph under construction.
        weights: Weights of the model by their names in BertModel.
        max_tokens: Longest text in tokens.
        attended: Name of a bool tensor that is true for tokens that others attend to, broadcast to (1, heads, t, t);
            all when left out. For float16 weights the mask that `text_mask` adds.

    Returns:
        Name of the last layer's output, float32.
    """
    from onnx import TensorProto

    x = _embed(graph, weights, max_tokens)
    for index in range(graph.bert.layers):
        x = _layer(graph, x, weights, index, attended)
    # Sums over tokens and norms, which follow, are taken in float32.
    return graph.node("Cast", [x], "last.float", to=TensorProto.FLOAT) if graph.bert.weights == "float16" else x


def text_mask(graph: Graph) -> str:
    """Add an int32 tensor (n, t) of ``input_ids``: 1 for tokens of a text, 0 for padding."""
    from onnx import TensorProto

    padding = graph.constant("mask.padding", np.array([PADDING], np.int64))
    inside = graph.node("Greater", ["input_ids", padding], "mask.inside")
    return graph.node("Cast", [inside], "mask", to=TensorProto.INT32)


def masked_mean(graph: Graph, x: str, mask: str) -> str:
    """Add the mean over the tokens of each text: (n, t, d) float32 and a mask (n, t) -> (n, d)."""
    from onnx import TensorProto

    chosen = graph.node("Cast", [mask], "mask.float", to=TensorProto.FLOAT)
    column = graph.node("Unsqueeze", [chosen, graph.constant("mask.axis", np.array([2], np.int64))], "mask.column")
    axis = graph.constant("token_axis", np.ones(1, np.int64))
    total = graph.node("ReduceSum", [graph.node("Mul", [x, column], "last.masked"), axis], "total", keepdims=0)
    return graph.node("Div", [total, graph.node("ReduceSum", [column, axis], "tokens", keepdims=0)], "mean")


def unit_rows(graph: Graph, x: str, name: str) -> str:
    """Add vectors of norm one along the last axis, of the shape of ``x``."""
    if graph.bert.weights != "float16":
        return graph.node("LpNormalization", [x], name, axis=-1, p=2)
    # Spelled out, as not every version of ONNX Runtime has LpNormalization for GPUs.
    norm = graph.node("ReduceL2", [x, graph.constant(f"{name}.axis", np.array([-1], np.int64))], f"{name}.norm")
    return graph.node("Div", [x, norm], name)


def finished(graph: Graph, name: str, output: str, shape: list[int | str]) -> onnx.ModelProto:
    """Return the model of a graph from ``input_ids`` to one float32 output.

    Args:
        graph: Graph of one text, or of many with float16 weights.
        name: Name of the model.
        output: Name of the output.
        shape: Shape of the output without its first axis, of texts.

    Returns:
        The model.
    """
    from onnx import TensorProto, helper

    texts = "texts" if graph.bert.weights == "float16" else 1

    return helper.make_model(
        helper.make_graph(
            graph.nodes,
            name,
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [texts, "tokens"])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, [texts, *shape])],
            graph.constants,
        ),
        producer_name="codequarry",
        # Attention is a standard operator since opset 23; fixed versions, so that a newer onnx writes the same bytes.
        opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)],
        ir_version=11,
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


def _embed(graph: Graph, weights: Mapping[str, np.ndarray], max_tokens: int) -> str:
    """Add word, position and token-type embeddings, normalized: (n, t, d)."""
    from onnx import TensorProto

    words = weights["embeddings.word_embeddings.weight"]
    if graph.bert.weights == "int8":
        scales = np.abs(words).max(axis=1, keepdims=True) / np.float32(127)
        scales[scales == 0] = 1
        table = graph.constant("words", np.rint(words / scales).astype(np.int8))
        graph.node("Gather", [table, "input_ids"], "word.int8")
        graph.node("Gather", [graph.constant("words.scale", scales), "input_ids"], "word.scale")
        graph.node("Cast", ["word.int8"], "word.float", to=TensorProto.FLOAT)
        graph.node("Mul", ["word.float", "word.scale"], "word")
    else:
        graph.node("Gather", [graph.real("words", words), "input_ids"], "word")
    # Every token is of type 0, so its embedding is part of the position's.
    places = (
        weights["embeddings.position_embeddings.weight"][:max_tokens]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    zero = graph.constant("zero", np.zeros(1, np.int64))
    graph.node("Shape", ["input_ids"], "length", start=1, end=2)
    graph.node("Slice", [graph.real("places", places), zero, "length", zero], "place")
    return graph.layer_norm(graph.node("Add", ["word", "place"], "embedding"), weights, "embeddings.LayerNorm")


def _layer(graph: Graph, x: str, weights: Mapping[str, np.ndarray], index: int, attended: str) -> str:
    """Add one transformer layer, with normalization after each residual sum: (n, t, d) -> (n, t, d)."""
    name, bert = f"encoder.layer.{index}", graph.bert

    def parameters(part: str) -> tuple[np.ndarray, np.ndarray]:
        return weights[f"{name}.{part}.weight"].T, weights[f"{name}.{part}.bias"]

    # One matrix product for query, key and value: the activation is quantized once.
    matrices, biases = zip(*(parameters(f"attention.self.{part}") for part in ("query", "key", "value")), strict=True)
    graph.linear(x, np.concatenate(matrices, axis=1), np.concatenate(biases), f"{name}.qkv")
    heads = [f"{name}.query", f"{name}.key", f"{name}.value"]
    graph.node("Split", [f"{name}.qkv"], *heads, axis=-1, num_outputs=3)
    if bert.weights == "float16":  # this operator has had kernels for GPUs for longer than the standard one
        heads += ["", attended]
        context = graph.node(
            "MultiHeadAttention", heads, f"{name}.context", domain="com.microsoft", num_heads=bert.heads
        )
    else:
        heads += [attended] if attended else []
        context = graph.node("Attention", heads, f"{name}.context", q_num_heads=bert.heads, kv_num_heads=bert.heads)
    attention = graph.linear(context, *parameters("attention.output.dense"), f"{name}.attended")
    attention = graph.node("Add", [attention, x], f"{name}.attended.sum")
    x = graph.layer_norm(attention, weights, f"{name}.attention.output.LayerNorm")

    inner = graph.linear(x, *parameters("intermediate.dense"), f"{name}.inner", bert.loud_hidden)
    inner = graph.node("Gelu", [inner], f"{name}.gelu")
    loud_gelu = bert.loud_gelu[index] if bert.loud_gelu else None
    outer = graph.linear(inner, *parameters("output.dense"), f"{name}.outer", loud_gelu)
    return graph.layer_norm(graph.node("Add", [outer, x], f"{name}.outer.sum"), weights, f"{name}.output.LayerNorm")
