"""Export of a model trained for late interaction to a token encoder, as `codequarry.serving.encoders.tokens` reads it.

A BERT is written operator by operator from its weights (`bert`): in int8 if the vectors of its tokens agree with those
of the original weights, else in float32. An ONNX graph of a transformer is kept as it is. The projection follows inside
the graph, then vectors get unit norm.

Where queries are filled up with mask tokens, these follow the last special token ([SEP]). Unless the model was trained
so, other tokens do not attend to them. The graph tells them by their place, and so needs no second input.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

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
from codequarry.pipelines.embed.export.minilm_tokens import sample_pieces, scales_of
from codequarry.pipelines.embed.export.model import LEAST_COSINE
from codequarry.pipelines.embed.export.model_folder import unusable
from codequarry.pipelines.embed.export.sparse_graph import fill_inputs, takes_tokens
from codequarry.pipelines.embed.export.token_model import Projection, TokenModel
from codequarry.pipelines.embed.half import DOCUMENTS, name_documents
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.install_hints import missing_extra
from codequarry.serving.encoders.onnx import open_session
from codequarry.serving.encoders.spec import TOKENIZER_FILE, Agreement, EncoderSpec, QueryShape
from codequarry.serving.encoders.tokens import MODEL_FILE, SCALES_FILE, WEIGHTS_FILE

if TYPE_CHECKING:
    import onnx
    from tokenizers import Tokenizer

MOST_DIMENSIONS = 128
"""Longest vector of a token that an index holds; lengths are multiples of 4, which fill the bytes of residuals."""
_SAMPLED = 60
"""Number of pieces of the sample by which scales are set and weights are compared."""


def export_tokens(model: TokenModel, directory: Path, *, max_tokens: int, half: bool = False) -> EncoderSpec:
    """Write the files of a token encoder into a directory.

    Args:
        model: Model to export.
        directory: Created when missing; files of the same names are replaced.
        max_tokens: Longest text in tokens, unless the model reads less.
        half: Write a float16 graph for the documents besides, as `minilm.export_minilm` does; a graph that the model
            brings has none.

    Returns:
        Description of the encoder.

    Raises:
        MissingExtraError: A library is not installed.
        InvalidArgumentError: The model cannot be used.
        IntegrityError: ONNX Runtime cannot run the graph.
    """
    try:
        import onnx  # noqa: F401
    except ModuleNotFoundError as error:
        raise missing_extra("a model for late interaction", "models", missing=error.name) from None
    directory.mkdir(parents=True, exist_ok=True)
    tokens = min(max_tokens, model.positions())
    tokenizer, prefixes = _marked_tokenizer(model)
    shape = _query_shape(model, tokenizer)
    end = _end_mark(model, tokenizer) if shape is not None and shape.mask is not None else None
    tokenizer.save(str(directory / TOKENIZER_FILE))
    tokenizer.no_padding()
    tokenizer.enable_truncation(tokens)
    pieces = [tokenizer.encode(prefixes[1] + piece).ids for piece in sample_pieces()[:_SAMPLED]]
    if model.graph is not None:
        graph, dim = _given_graph(model, model.graph, end)
        write_model(graph, directory)
        (directory / WEIGHTS_FILE).touch()  # a small model has no large weights
        vectors, agreement = _vectors(directory, pieces, dim), None
    else:
        vectors, agreement = _write_bert(model, directory, tokens, end, pieces)
    np.save(directory / SCALES_FILE, scales_of(np.concatenate(vectors)), allow_pickle=False)

    def seal(folder: Path, agreement: Agreement | None, documents: str | None = None) -> EncoderSpec:
        return EncoderSpec.seal(
            folder,
            kind="tokens",
            name=model.name,
            dim=vectors[0].shape[1],
            max_tokens=tokens,
            license=model.license,
            source=model.name,
            query_prefix=prefixes[0],
            document_prefix=prefixes[1],
            agreement=agreement,
            query_shape=shape,
            documents=documents,
        )

    if not half or model.graph is not None:
        return seal(directory, agreement)
    below = directory / DOCUMENTS
    below.mkdir(exist_ok=True)
    _write_graph(model, below, tokens, None, "float16")
    for name in (SCALES_FILE, TOKENIZER_FILE):
        shutil.copyfile(directory / name, below / name)
    return seal(directory, agreement, name_documents(seal(below, None)))


def _marked_tokenizer(model: TokenModel) -> tuple[Tokenizer, tuple[str, str]]:
    """Return the tokenizer, which reads the marks as single tokens, and the prefixes of queries and documents."""
    from tokenizers import AddedToken, Tokenizer

    file = model.transformer / TOKENIZER_FILE
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # tokenizers raises bare Exception
        raise _unusable(file, "no tokenizer", "the format of Hugging Face tokenizers") from error
    marks, prompts = model.queries.marks or ("", ""), model.queries.prompts
    for mark in filter(None, marks):
        number = tokenizer.token_to_id(mark)
        if number is None:
            raise _unusable(file, f"no token {mark!r}", "the token that marks queries or documents")
        tokenizer.add_special_tokens([AddedToken(mark, normalized=False, special=True)])
        if number not in tokenizer.encode(f"{mark}x").ids[:2]:
            raise _unusable(file, f"{mark!r} cut into several tokens", "one token")
    return tokenizer, (marks[0] + prompts[0], marks[1] + prompts[1])


def _query_shape(model: TokenModel, tokenizer: Tokenizer) -> QueryShape | None:
    """Return the shape of queries; None when they are read like documents."""
    queries = model.queries
    if not queries.length:
        return None
    if not queries.expanded:
        return QueryShape(length=queries.length)
    mask = tokenizer.token_to_id("[MASK]")
    if mask is None:
        raise _unusable(model.transformer / TOKENIZER_FILE, "no token '[MASK]'", "the token that fills queries up")
    return QueryShape(length=queries.length, mask=mask)


def _end_mark(model: TokenModel, tokenizer: Tokenizer) -> int | None:
    """Return the last token of every text, behind which tokens are not attended to; None where all are."""
    if model.queries.attended:
        return None
    encoding = tokenizer.encode("x")
    if not encoding.special_tokens_mask[-1]:
        raise _unusable(model.transformer / TOKENIZER_FILE, "texts without a token at their end", "such as [SEP]")
    return encoding.ids[-1]


def _write_bert(
    model: TokenModel, directory: Path, tokens: int, end: int | None, pieces: list[list[int]]
) -> tuple[list[NDArray[np.float32]], Agreement]:
    """Write the graph of a BERT with the smaller weights that agree.

    Args:
        model: The model.
        directory: Folder of the encoder.
        tokens: Longest text in tokens.
        end: See `_end_mark`.
        pieces: Tokens of pieces of code.

    Returns:
        Vectors of the pieces by the original weights, and the agreement of those that were written.
    """
    with tempfile.TemporaryDirectory(dir=directory, prefix="float32-") as temporary:
        dim = _write_graph(model, Path(temporary), tokens, end, "float32")
        original = _vectors(Path(temporary), pieces, dim)
    ways: tuple[Literal["int8", "float32"], ...] = ("int8", "float32")
    for way in ways:
        _write_graph(model, directory, tokens, end, way)
        found = _vectors(directory, pieces, dim)
        cosines = np.concatenate([(one * other).sum(axis=1) for one, other in zip(found, original, strict=True)])
        mean, least = (round(float(value), 4) for value in (cosines.mean(), cosines.min()))
        agreement = Agreement(weights=way, texts=len(pieces), mean=mean, least=least)
        if agreement.mean >= LEAST_COSINE:
            break
    return original, agreement


def _write_graph(model: TokenModel, folder: Path, tokens: int, end: int | None, kind: Weights) -> int:
    """Write the graph of a BERT.

    Args:
        model: The model.
        folder: Folder of the graph.
        tokens: Longest text in tokens.
        end: See `_end_mark`; None for a graph of documents, which have no tokens behind it.
        kind: Type of the graph's weights.

    Returns:
        Length of the vectors.
    """
    bert, weights = model.weights()
    graph = Graph(replace(bert, weights=kind))
    before_end = "" if end is None else _attended(graph, end)
    attended = text_mask(graph) if kind == "float16" else before_end
    try:
        last = hidden_states(graph, weights, tokens, attended)
    except (KeyError, ValueError) as error:
        raise _unusable(model.transformer, f"no fitting weights ({error})", "those of a BERT") from error
    dim = len(weights["embeddings.LayerNorm.weight"])
    vectors, dim = _project(graph, last, model.projections(), dim, model)
    write_model(finished(graph, f"{model.name}-tokens", vectors, ["tokens", dim]), folder)
    (folder / WEIGHTS_FILE).touch()
    return dim


def _given_graph(model: TokenModel, file: Path, end: int | None) -> tuple[onnx.ModelProto, int]:
    """Return a transformer's graph with the projection behind it, and the length of its vectors."""
    import onnx
    from onnx import TensorProto, helper

    given = onnx.load(str(file))
    outputs = [(one.name, [size.dim_value for size in one.type.tensor_type.shape.dim]) for one in given.graph.output]
    last, dims = next(((name, dims) for name, dims in outputs if len(dims) == 3 and dims[2] > 0), ("", [0]))
    names = [one.name for one in given.graph.input]
    masked = end is not None
    if not takes_tokens(given) or not last or (masked and "attention_mask" not in names):
        raise _unusable(
            file,
            f"inputs {', '.join(names)} and outputs of dimensions {[dims for _, dims in outputs]}",
            f"input_ids, {'' if masked else 'where needed '}attention_mask, where needed token_type_ids, and vectors "
            "(batch, tokens, d) with a fixed d",
        )
    front, behind = Graph(), Graph()
    if end is not None:
        attended = _attended(front, end, rank=2)
        mask = next(one for one in given.graph.input if one.name == "attention_mask")
        front.node("Cast", [attended], "attention_mask", to=mask.type.tensor_type.elem_type)
    layers = model.projections()
    if layers and dims[-1] == len(layers[-1].weight) != layers[0].weight.shape[1]:
        layers = ()  # the graph holds them already
    vectors, dim = _project(behind, last, layers, dims[-1], model)
    fill_inputs(given, front.nodes)
    given.graph.node.extend(behind.nodes)
    given.graph.initializer.extend([*front.constants, *behind.constants])
    del given.graph.input[:], given.graph.output[:], given.graph.value_info[:]
    given.graph.input.append(helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "tokens"]))
    given.graph.output.append(helper.make_tensor_value_info(vectors, TensorProto.FLOAT, [1, "tokens", dim]))
    return given, dim


def _attended(graph: Graph, end: int, rank: int = 4) -> str:
    """Add a bool tensor that is true up to the last end mark: (1, 1, t, t), or (1, t) for a rank of 2."""
    from onnx import TensorProto

    ends = graph.node("Equal", ["input_ids", graph.constant("attended.end", np.array(end, np.int64))], "attended.ends")
    counts = graph.node("Cast", [ends], "attended.counts", to=TensorProto.INT64)
    axis = graph.constant("attended.axis", np.array(1, np.int64))
    following = graph.node("CumSum", [counts, axis], "attended.following", reverse=1)
    attended = graph.node("Greater", [following, graph.constant("attended.none", np.array(0, np.int64))], "attended")
    if rank == 2:
        return attended
    # A row for every token, as ONNX Runtime wants it.
    axes = graph.constant("attended.axes", np.array([1, 2], np.int64))
    row = graph.node("Unsqueeze", [attended, axes], "attended.row")
    graph.node("Shape", ["input_ids"], "attended.length", start=1, end=2)
    ones = graph.constant("attended.ones", np.ones(1, np.int64))
    size = graph.node("Concat", [ones, ones, "attended.length", ones], "attended.size", axis=0)
    return graph.node("Expand", [row, size], "attended.rows")


def _project(graph: Graph, last: str, layers: tuple[Projection, ...], dim: int, model: TokenModel) -> tuple[str, int]:
    """Add the projection and the norm: name and length of the vectors."""
    x = last
    for number, layer in enumerate(layers):
        width = layer.weight.shape[1]
        if width != dim:
            raise _unusable(model.transformer, f"a layer for vectors of {width} numbers", f"one for {dim}")
        dim = len(layer.weight)
        x = graph.node("MatMul", [x, graph.constant(f"dense.{number}", layer.weight.T)], f"dense.{number}.product")
        if layer.bias is not None:
            x = graph.node("Add", [x, graph.constant(f"dense.{number}.bias", layer.bias)], f"dense.{number}.sum")
    if dim > MOST_DIMENSIONS or dim % 4:
        raise _unusable(
            model.transformer, f"vectors of {dim} numbers", f"a multiple of 4 up to {MOST_DIMENSIONS}; models for late "
            "interaction have a projection to so many",
        )  # fmt: skip
    return unit_rows(graph, x, "token.vectors"), dim


def _vectors(directory: Path, pieces: list[list[int]], dim: int) -> list[NDArray[np.float32]]:
    """Return the vectors of the tokens of each piece."""
    session = open_session(directory / MODEL_FILE, (None, dim))
    return [np.asarray(session.run(None, {"input_ids": np.array([ids], np.int64)})[0])[0] for ids in pieces]


def _unusable(place: Path, found: str, expected: str) -> InvalidArgumentError:
    return unusable(place, found, expected, "warp")
