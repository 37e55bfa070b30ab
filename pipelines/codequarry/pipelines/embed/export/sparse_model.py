"""Contents of a sparse model's folder: a masked language model, the pooling of its logits, the weighing of queries.

Read from the files of sentence-transformers as they are (``modules.json``, ``router_config.json``), so that a folder
with an ONNX graph needs neither torch nor that library. A folder of nothing but a graph and ``tokenizer.json`` is a
model of the usual kind: maximum over tokens of log(1 + relu), queries by the same model. An ``idf.json`` beside them
(token to weight) makes its queries inference-free.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from codequarry.pipelines.embed.export.model_folder import graph_in, license_in, read_json, unusable
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.install_hints import missing_extra
from codequarry.serving.encoders.spec import TOKENIZER_FILE

Pooling = Literal["max", "sum"]
Activation = Literal["relu", "log1p_relu"]
_MODEL, _POOLING, _STATIC = ("Transformer", "MLMTransformer"), "SpladePooling", "SparseStaticEmbedding"


@dataclass(frozen=True, slots=True)
class SparseModel:
    """A model as its folder describes it."""

    name: str
    documents: Path
    """Folder of the masked language model and its tokenizer."""
    graph: Path | None
    """ONNX graph of the model, or None."""
    pooling: Pooling
    activation: Activation
    positions: int
    """Most tokens the model can read."""
    queries: Path | None
    """Folder of the tokenizer and the weights of inference-free queries; None: queries go through the model."""
    query_prefix: str
    document_prefix: str
    license: str

    def query_weights(self, terms: int) -> NDArray[np.float32]:
        """Return the weights of inference-free queries.

        Args:
            terms: V, the number of terms.

        Returns:
            (V,) float32.

        Raises:
            InvalidArgumentError: There are no finite weights of that length.
        """
        assert self.queries is not None
        weights = _static_weights(self.queries, terms)
        if weights.shape != (terms,) or not np.isfinite(weights).all():
            raise _unusable(self.queries, f"query weights of shape {weights.shape}", f"({terms},), finite")
        return weights


def read_sparse_model(folder: Path, name: str = "") -> SparseModel:
    """Read the description of a sparse model from a folder.

    Args:
        folder: Folder of the model.
        name: Name for people; the folder's own when left out.

    Returns:
        The model.

    Raises:
        InvalidArgumentError: The folder holds no sparse model, or one with unsupported parts.
    """
    if not folder.is_dir():
        raise _unusable(folder, "no folder", "a folder with a sparse model")
    described = (folder / "modules.json").is_file()
    documents, queries, pooling = _by_modules(folder) if described else (folder, None, None)
    if not described and (folder / "idf.json").is_file():
        queries = folder
    options = _json(pooling / "config.json") if pooling is not None else {}
    graph = graph_in(documents)
    if graph is None and not (documents / "config.json").is_file():
        raise _unusable(documents, "neither model.onnx nor config.json", "a masked language model")
    if not (documents / TOKENIZER_FILE).is_file():
        raise _unusable(documents, f"no {TOKENIZER_FILE}", "a tokenizer in the format of Hugging Face tokenizers")
    prompts = _json(folder / "config_sentence_transformers.json").get("prompts") or {}
    return SparseModel(
        name=name or folder.name,
        documents=documents,
        graph=graph,
        pooling=cast(Pooling, _one_of(Pooling, folder, options.get("pooling_strategy", "max"))),
        activation=cast(Activation, _one_of(Activation, folder, options.get("activation_function", "relu"))),
        positions=_positions(documents),
        queries=queries,
        query_prefix=str(prompts.get("query") or ""),
        document_prefix=str(prompts.get("document") or ""),
        license=license_in(folder),
    )


def _by_modules(folder: Path) -> tuple[Path, Path | None, Path | None]:
    """Return the folders of the model of documents, of inference-free queries, and of the pooling."""
    modules = [(str(one["type"]), folder / str(one["path"])) for one in _json(folder / "modules.json")]
    first, place = modules[0]
    if _kind(first) == "Router":
        router = _json(place / "router_config.json")
        routes = {
            route: [(str(router["types"][name]), place / name) for name in names]
            for route, names in router["structure"].items()
        }
        query, document = routes.get("query", []) + modules[1:], routes.get("document", []) + modules[1:]
    else:
        query = document = modules
    kinds = [_kind(kind) for kind, _ in document]
    if len(kinds) != 2 or kinds[0] not in _MODEL or kinds[1] != _POOLING:
        raise _unusable(folder, f"documents by {', '.join(kinds)}", f"{_MODEL[0]}, {_POOLING}")
    (_, model), (_, pooling) = document
    if query == document:
        return model, None, pooling
    kinds = [_kind(kind) for kind, _ in query]
    if kinds != [_STATIC]:
        raise _unusable(folder, f"queries by {', '.join(kinds)}", f"{_STATIC}, or the model of documents")
    return model, query[0][1], pooling


def _static_weights(folder: Path, terms: int) -> NDArray[np.float32]:
    """Return the query weights of a SparseStaticEmbedding, or of an ``idf.json``."""
    listed = folder / str(_json(folder / "config.json").get("path") or "idf.json")
    if listed.is_file():
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
        weights = np.zeros(terms, np.float32)
        for token, weight in _json(listed).items():
            number = tokenizer.token_to_id(token)
            if number is not None and number < terms:
                weights[number] = weight
        return weights
    try:
        from safetensors.numpy import load_file
    except ModuleNotFoundError as error:
        raise missing_extra("a sparse model with weights of queries", "models", missing=error.name) from None
    file = folder / "model.safetensors"
    if not file.is_file():
        raise _unusable(folder, "no weights of queries", "model.safetensors or idf.json")
    return load_file(file)["weight"].astype(np.float32)


def _positions(folder: Path) -> int:
    """Return the least length that model and tokenizer state; 512 when they state none."""
    said = [
        _json(folder / file).get(key)
        for file, key in (
            ("config.json", "max_position_embeddings"),
            ("tokenizer_config.json", "model_max_length"),
            ("sentence_bert_config.json", "max_seq_length"),
        )
    ]
    return min([int(one) for one in said if isinstance(one, int | float) and 2 < one < 1 << 20], default=512)


def _kind(name: str) -> str:
    return name.rpartition(".")[2]


def _one_of(kind: Any, folder: Path, value: object) -> object:
    if value not in get_args(kind):
        raise _unusable(folder, f"pooling {value!r}", " or ".join(get_args(kind)))
    return value


def _json(file: Path) -> Any:
    return read_json(file, "splade")


def _unusable(place: Path, found: str, expected: str) -> InvalidArgumentError:
    return unusable(place, found, expected, "splade")
