"""Contents of the folder of a model trained for late interaction: a transformer, its projection, how it reads queries.

Two layouts are read as their libraries write them, so that neither torch nor those libraries are needed:

* sentence-transformers and PyLate: ``modules.json`` with a Transformer and Dense layers without activation;
  ``config_sentence_transformers.json`` with the marks of queries and documents and the length of queries.
* ColBERT: weights of a transformer with ``linear.weight``; ``artifact.metadata`` with marks and lengths.

The transformer is a BERT with ``model.safetensors``, or an ONNX graph of any architecture (``model.onnx``).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codequarry.pipelines.embed.export.bert import Bert
from codequarry.pipelines.embed.export.model_folder import graph_in, license_in, read_json, unusable
from codequarry.schemas.bundle.warp import MAX_QUERY_TOKENS
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.install_hints import missing_extra
from codequarry.serving.encoders.spec import TOKENIZER_FILE

Weights = dict[str, NDArray[np.float32]]

_WEIGHTS = "model.safetensors"
_WORDS = "embeddings.word_embeddings.weight"
_MARKS = ("[unused0]", "[unused1]")
"""Marks of queries and documents of a ColBERT checkpoint that names none."""


@dataclass(frozen=True, slots=True)
class Queries:
    """Marks, prompts and length of queries that a model was trained with."""

    marks: tuple[str, str] | None = None
    """Tokens in front of a query and of a document."""
    prompts: tuple[str, str] = ("", "")
    """Words behind them."""
    length: int = 0
    """Tokens of a query; 0: a query is read like a document."""
    expanded: bool = False
    """Fill short queries up with mask tokens."""
    attended: bool = False
    """Let other tokens attend to these."""


@dataclass(frozen=True, slots=True)
class Projection:
    """A linear layer behind the transformer."""

    weight: NDArray[np.float32]
    """(out, in)."""
    bias: NDArray[np.float32] | None


@dataclass(frozen=True, slots=True)
class TokenModel:
    """A model as its folder describes it."""

    name: str
    transformer: Path
    """Folder of the transformer and its tokenizer."""
    graph: Path | None
    """ONNX graph of the transformer, or None."""
    dense: tuple[Path, ...]
    """Folders of the layers behind the transformer; empty where its own weights hold ``linear.weight``, or none."""
    queries: Queries
    license: str

    def positions(self) -> int:
        """Return the most tokens that the transformer can read; 512 when its configuration states none."""
        stated = _json(self.transformer / "config.json").get("max_position_embeddings")
        return int(stated) if isinstance(stated, int) and stated > 2 else 512

    def weights(self) -> tuple[Bert, Weights]:
        """Return the shape and the weights of the transformer, a BERT, by their names in BertModel.

        Returns:
            Shape, and weights in float32.

        Raises:
            MissingExtraError: safetensors is not installed.
            InvalidArgumentError: The transformer is no BERT of the usual kind, or has no weights that can be read.
        """
        config = _json(self.transformer / "config.json")
        expected = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
        for key, value in expected.items():
            if config.get(key, value) != value or (key == "model_type" and key not in config):
                raise _unusable(
                    self.transformer / "config.json", f"{key} {config.get(key)!r}", f"{value!r}, or an ONNX graph of "
                    f"the transformer beside it as model.onnx",
                )  # fmt: skip
        held = _load(self.transformer / _WEIGHTS)
        start = next((name.removesuffix(_WORDS) for name in held if name.endswith(_WORDS)), None)
        if start is None:
            raise _unusable(self.transformer / _WEIGHTS, f"no {_WORDS}", "the weights of a BERT")
        bert = Bert(
            layers=int(config["num_hidden_layers"]),
            heads=int(config["num_attention_heads"]),
            epsilon=float(config.get("layer_norm_eps", 1e-12)),
        )
        return bert, {name.removeprefix(start): values for name, values in held.items()}

    def projections(self) -> tuple[Projection, ...]:
        """Return the layers behind the transformer, in order.

        Returns:
            The layers; none when the vectors of the transformer are used as they are.

        Raises:
            MissingExtraError: safetensors is not installed.
            InvalidArgumentError: A layer has an activation, or no weights that can be read.
        """
        places = self.dense
        if not places and self.graph is None:
            places = (self.transformer,)
        found: list[Projection] = []
        for place in places:
            config = _json(place / "config.json") if self.dense else {}
            activation = str(config.get("activation_function") or "Identity").rpartition(".")[2]
            if activation != "Identity" or config.get("use_residual"):
                raise _unusable(place, f"a layer with {activation} or a residual", "a linear layer without either")
            held = _load(place / _WEIGHTS)
            if "linear.weight" in held:
                found.append(Projection(held["linear.weight"], held.get("linear.bias")))
            elif self.dense:
                raise _unusable(place / _WEIGHTS, "no linear.weight", "the weights of a linear layer")
        return tuple(found)


def read_token_model(folder: Path, name: str = "") -> TokenModel:
    """Read the description of a model for late interaction from a folder.

    Args:
        folder: Folder of the model.
        name: Name for people; the folder's own when left out.

    Returns:
        The model.

    Raises:
        InvalidArgumentError: The folder holds no such model, or one with unsupported parts.
    """
    if not folder.is_dir():
        raise _unusable(folder, "no folder", "a folder with a model trained for late interaction")
    transformer, dense = _by_modules(folder)
    graph = graph_in(transformer)
    if graph is None and not (transformer / _WEIGHTS).is_file():
        raise _unusable(transformer, f"neither model.onnx nor {_WEIGHTS}", "the weights of a transformer")
    if not (transformer / TOKENIZER_FILE).is_file():
        raise _unusable(transformer, f"no {TOKENIZER_FILE}", "a tokenizer in the format of Hugging Face tokenizers")
    return TokenModel(
        name=name or folder.name,
        transformer=transformer,
        graph=graph,
        dense=dense,
        queries=_queries(folder),
        license=license_in(folder),
    )


def _by_modules(folder: Path) -> tuple[Path, tuple[Path, ...]]:
    """Return the folders of the transformer and of the layers behind it."""
    modules = _json(folder / "modules.json")
    if not modules:
        return folder, ()
    kinds = [str(one["type"]).rpartition(".")[2] for one in modules]
    places = [folder / str(one["path"]) for one in modules]
    dense = [place for kind, place in zip(kinds, places, strict=True) if kind == "Dense"]
    if kinds[0] != "Transformer" or set(kinds[1:]) - {"Dense", "Normalize"}:
        raise _unusable(folder, f"modules {', '.join(kinds)}", "a Transformer, then Dense layers")
    return places[0], tuple(dense)


def _queries(folder: Path) -> Queries:
    """Return how queries are read, as PyLate or ColBERT state it; like documents when neither does."""
    colbert, pylate = _json(folder / "artifact.metadata"), _json(folder / "config_sentence_transformers.json")
    if {"query_prefix", "document_prefix", "query_length"} & pylate.keys():
        prompts = pylate.get("prompts") or {}
        return Queries(
            (str(pylate.get("query_prefix") or "[Q] "), str(pylate.get("document_prefix") or "[D] ")),
            (str(prompts.get("query") or ""), str(prompts.get("document") or "")),
            _length(pylate.get("query_length")),
            bool(pylate.get("do_query_expansion", True)),
            bool(pylate.get("attend_to_expansion_tokens")),
        )
    architectures = _json(folder / "config.json").get("architectures") or []
    if colbert or "HF_ColBERT" in architectures:
        # It always fills queries up.
        query, document = colbert.get("query_token_id") or _MARKS[0], colbert.get("doc_token_id") or _MARKS[1]
        attended = bool(colbert.get("attend_to_mask_tokens"))
        return Queries((str(query), str(document)), ("", ""), _length(colbert.get("query_maxlen")), True, attended)
    return Queries()


def _length(stated: object) -> int:
    return min(stated, MAX_QUERY_TOKENS) if isinstance(stated, int) and stated > 2 else MAX_QUERY_TOKENS


def _load(file: Path) -> Weights:
    """Return the tensors of a safetensors file in float32.

    Args:
        file: Path of the file.

    Returns:
        Tensors by name.

    Raises:
        MissingExtraError: safetensors is not installed.
        InvalidArgumentError: The file is missing, or its tensors are none that NumPy reads.
    """
    try:
        from safetensors.numpy import load_file
    except ModuleNotFoundError as error:
        raise missing_extra("a model for late interaction", "models", missing=error.name) from None
    try:
        return {name: values.astype(np.float32) for name, values in load_file(file).items()}
    except Exception as error:  # safetensors raises an exception of its own, and TypeError for bfloat16
        raise _unusable(
            file, f"a file that cannot be read ({type(error).__name__})", "weights in float32 or float16"
        ) from error


def _json(file: Path) -> Any:
    return read_json(file, "warp")


def _unusable(place: Path, found: str, expected: str) -> InvalidArgumentError:
    return unusable(place, found, expected, "warp")
