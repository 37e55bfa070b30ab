"""Conversion of a masked language model's ONNX graph to that of a sparse encoder: one input, pooled inside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codequarry.pipelines.embed.export.sparse_model import Activation, Pooling
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.install_hints import missing_extra

if TYPE_CHECKING:
    import onnx

_FILLED = {"attention_mask": 1, "token_type_ids": 0}
"""Constant values of the inputs beside ``input_ids``, for a single unpadded text."""


def pooled_graph(file: Path, pooling: Pooling, activation: Activation) -> tuple[onnx.ModelProto, int]:
    """Return the graph of a masked language model with pooling, from ``input_ids`` (1, t) to weights (1, V).

    Args:
        file: ONNX graph of the model.
        pooling: max: log(1 + relu(largest logit of each term)); sum: the same of each token, summed.
        activation: ``log1p_relu`` takes the logarithm twice (SpladePooling of sentence-transformers).

    Returns:
        The graph, and V.

    Raises:
        MissingExtraError: onnx is not installed.
        InvalidArgumentError: The graph does not belong to a masked language model.
    """
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise missing_extra("a sparse model", "models", missing=error.name) from None
    model = onnx.load(str(file))
    graph = model.graph
    names = [one.name for one in graph.input]
    logits = graph.output[0]
    dims = [one.dim_value for one in logits.type.tensor_type.shape.dim]
    if not takes_tokens(model) or len(dims) != 3 or dims[2] < 1:
        raise InvalidArgumentError(
            f"{file}: inputs {', '.join(names)} and an output of dimensions {dims}, expected input_ids, where needed "
            "attention_mask and token_type_ids, and logits (batch, tokens, terms) with a fixed number of terms",
            suggestion="export the masked language model with its language-model head",
        )
    fill_inputs(model)
    _pool(model, logits.name, pooling, activation)
    shapes = {"input_ids": (onnx.TensorProto.INT64, [1, "tokens"]), "weights": (onnx.TensorProto.FLOAT, [1, dims[2]])}
    described = [onnx.helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in shapes.items()]
    del graph.input[:], graph.output[:], graph.value_info[:]
    graph.input.append(described[0])
    graph.output.append(described[1])
    return model, dims[2]


def takes_tokens(model: onnx.ModelProto) -> bool:
    """Return whether a graph has the input ``input_ids``, and no other that `fill_inputs` cannot replace."""
    names = {one.name for one in model.graph.input}
    return "input_ids" in names and names <= {"input_ids", *_FILLED}


def fill_inputs(model: onnx.ModelProto, first: Sequence[onnx.NodeProto] = ()) -> None:
    """Replace the inputs that are the same for every text by nodes.

    Args:
        model: Graph whose inputs `takes_tokens` accepts; changed in place.
        first: Nodes to put in front. They may compute such an input by its name.
    """
    from onnx import helper

    computed = {name for node in first for name in node.output}
    filled = [one for one in model.graph.input if one.name in _FILLED and one.name not in computed]
    nodes = [helper.make_node("Shape", ["input_ids"], ["pooled/shape"])] if filled else []
    for one in filled:
        value = helper.make_tensor("value", one.type.tensor_type.elem_type, [1], [_FILLED[one.name]])
        nodes.append(helper.make_node("ConstantOfShape", ["pooled/shape"], [one.name], value=value))
    rest = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*first, *nodes, *rest])


def _pool(model: onnx.ModelProto, logits: str, pooling: Pooling, activation: Activation) -> None:
    """Append the pooling.

    Logarithm and relu are monotonic, so the largest logit may be taken before them.
    """
    import numpy as np
    from onnx import helper, numpy_helper

    opset = next(one.version for one in model.opset_import if one.domain in ("", "ai.onnx"))
    nodes: list[onnx.NodeProto] = []
    constants = [numpy_helper.from_array(np.ones(1, np.float32), "pooled/one")]

    def add(operator: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        output = output or f"pooled/{len(nodes)}"
        nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def reduce(operator: str, x: str, since: int) -> str:
        # The axes became an input in opset `since`, which differs between the two operators.
        if opset < since:
            return add(operator, [x], axes=[1], keepdims=0)
        constants.append(numpy_helper.from_array(np.ones(1, np.int64), "pooled/axis"))
        return add(operator, [x, "pooled/axis"], keepdims=0)

    x = add("Cast", [logits], to=1)
    if pooling == "max":
        x = reduce("ReduceMax", x, 18)
    x = add("Relu", [x])
    for _ in range(2 if activation == "log1p_relu" else 1):
        x = add("Log", [add("Add", [x, "pooled/one"])])
    if pooling == "sum":
        x = reduce("ReduceSum", x, 13)
    add("Identity", [x], "weights")
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(constants)
