"""Export of a masked language model that only torch can run to an ONNX graph."""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from codequarry.schemas.errors import IntegrityError, InvalidArgumentError
from codequarry.schemas.install_hints import missing_extra

_TOLERANCE = 1e-3
"""Largest difference between the logits of graph and model, relative to the largest logit if that is above 1."""
_OPSET = 17


def write_graph(folder: Path, target: Path, tokens: int) -> None:
    """Write ``target`` from a model of transformers, and compare both on a text of another length.

    No code of the folder is run.

    Args:
        folder: Folder of the model: ``config.json`` and weights.
        target: File of the graph.
        tokens: Most tokens the model can read.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        InvalidArgumentError: The folder holds no masked language model that they know.
        IntegrityError: The graph gives other logits.
    """
    try:
        torch, transformers = import_module("torch"), import_module("transformers")
    except ModuleNotFoundError as error:
        raise missing_extra("a sparse model without an ONNX graph", "transformers", missing=error.name) from None
    try:
        model = transformers.AutoModelForMaskedLM.from_pretrained(
            str(folder), local_files_only=True, attn_implementation="eager", dtype=torch.float32
        )
    except (OSError, ValueError, KeyError) as error:
        raise InvalidArgumentError(
            f"{folder}: transformers cannot load a masked language model from it: {str(error).splitlines()[0]}",
            suggestion="put an ONNX graph beside it as model.onnx, or correct [splade] model",
        ) from error

    class Logits(torch.nn.Module):
        """The model with token ids as its only input and logits as its only output."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Any) -> Any:
            return self.model(input_ids=input_ids, attention_mask=torch.ones_like(input_ids)).logits

    logits = Logits().eval()
    size = model.config.vocab_size
    short, long = (_ids(count, size) for count in (min(7, tokens), min(31, tokens)))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the tracer warns of shapes treated as constants; `_compare` checks them
        torch.onnx.export(
            logits, (torch.from_numpy(short),), str(target), dynamo=False, opset_version=_OPSET,
            input_names=["input_ids"], output_names=["logits"],
            dynamic_axes={"input_ids": {0: "batch", 1: "tokens"}, "logits": {0: "batch", 1: "tokens"}},
        )  # fmt: skip
        expected = logits(torch.from_numpy(long)).numpy()
    _compare(target, long, expected)


def _ids(count: int, size: int) -> np.ndarray:
    """Return tokens spread over a vocabulary: (1, count) int64."""
    return (np.arange(1, count + 1, dtype=np.int64) * 7919 % size)[None, :]


def _compare(graph: Path, ids: np.ndarray, expected: np.ndarray) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(graph), providers=["CPUExecutionProvider"])
    found = np.asarray(session.run(None, {"input_ids": ids})[0])
    differ = float(np.abs(found - expected).max()) if found.shape == expected.shape else float("inf")
    if not differ <= _TOLERANCE * max(1.0, float(np.abs(expected).max())):
        raise IntegrityError(
            f"{graph.name}: logits of graph and model differ by {differ:.3g} over {ids.shape[1]} tokens",
            suggestion="export the model to ONNX by its own tools, and put the graph beside it as model.onnx",
        )
