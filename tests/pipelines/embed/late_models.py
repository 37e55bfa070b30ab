"""Models for late interaction made here: a small BERT with random weights in every layout, and what it computes."""

from __future__ import annotations

import json
from math import erf
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from tests.pipelines.embed import sparse_models

LAYERS, HEADS, WIDTH, INNER, DIM, POSITIONS = 2, 4, 32, 64, 16, 96
EPSILON = 1e-12
MARKS = ("[unused0]", "[unused1]")

Weights = dict[str, np.ndarray]


def vocabulary() -> dict[str, int]:
    """That of the sparse models, with marks, and words of the tests."""
    return {term: number for number, term in enumerate([*sparse_models.vocabulary(), *MARKS, "[Q] ", "[D] "])}


def tokenizer(*, added: bool = False) -> Tokenizer:
    """WordPiece with [CLS] and [SEP] around a text.

    Args:
        added: Makes PyLate's marks tokens of their own, as PyLate does.
    """
    ids = vocabulary()
    made = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(list(sparse_models.SPECIAL))
    if added:
        made.add_tokens(["[Q] ", "[D] "])
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(mark, ids[mark]) for mark in ("[CLS]", "[SEP]")]
    )
    return made


def bert_weights(seed: int = 0) -> Weights:
    """Random weights by the names of BertModel. Layers change a token less than they keep, so that words stay words."""
    random = np.random.default_rng(seed)

    def drawn(*shape: int, scale: float) -> np.ndarray:
        return (random.standard_normal(shape) * scale).astype(np.float32)

    weights: Weights = {
        "embeddings.word_embeddings.weight": drawn(len(vocabulary()), WIDTH, scale=1),
        "embeddings.position_embeddings.weight": drawn(POSITIONS, WIDTH, scale=0.1),
        "embeddings.token_type_embeddings.weight": drawn(2, WIDTH, scale=0.1),
    }
    parts = {
        "attention.self.query": (WIDTH, WIDTH), "attention.self.key": (WIDTH, WIDTH),
        "attention.self.value": (WIDTH, WIDTH), "attention.output.dense": (WIDTH, WIDTH),
        "intermediate.dense": (INNER, WIDTH), "output.dense": (WIDTH, INNER),
    }  # fmt: skip
    for layer in range(LAYERS):
        for part, shape in parts.items():
            weights[f"encoder.layer.{layer}.{part}.weight"] = drawn(*shape, scale=0.1)
            weights[f"encoder.layer.{layer}.{part}.bias"] = drawn(shape[0], scale=0.05)
    norms = ["embeddings.LayerNorm"]
    norms += [f"encoder.layer.{n}.{part}.LayerNorm" for n in range(LAYERS) for part in ("attention.output", "output")]
    for norm in norms:
        weights[f"{norm}.weight"] = 1 + drawn(WIDTH, scale=0.1)
        weights[f"{norm}.bias"] = drawn(WIDTH, scale=0.1)
    return weights


def projection(seed: int = 1) -> np.ndarray:
    """(16, 32) float32: the linear layer."""
    return np.random.default_rng(seed).standard_normal((DIM, WIDTH)).astype(np.float32)


def hidden(weights: Weights, ids: list[int], attended: int | None = None) -> np.ndarray:
    """What a BERT says of each token, in float64: (t, 32).

    Args:
        weights: Its weights.
        ids: Tokens.
        attended: Number of tokens, from the first on, that others attend to; all when left out.
    """
    w = {name: values.astype(np.float64) for name, values in weights.items()}

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(axis=-1, keepdims=True)
        x = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        q, k, v = (
            linear(x, f"{name}.attention.self.{part}").reshape(len(ids), HEADS, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(WIDTH / HEADS)
        scores[:, :, attended:] = -np.inf if attended is not None else scores[:, :, attended:]
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (shares / shares.sum(axis=-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(ids), WIDTH)
        x = norm(x + linear(mixed, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm")
        inner = linear(x, f"{name}.intermediate.dense")
        inner = inner * 0.5 * (1 + np.vectorize(erf)(inner / np.sqrt(2)))
        x = norm(x + linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")
    return x


def token_vectors(ids: list[int], attended: int | None = None) -> np.ndarray:
    """Unit vectors of tokens by the model of this module: (t, 16)."""
    x = hidden(bert_weights(), ids, attended) @ projection().astype(np.float64).T
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def write_config(folder: Path, **changes: object) -> None:
    """``config.json`` of a BERT."""
    config = {
        "model_type": "bert", "hidden_act": "gelu", "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "hidden_size": WIDTH, "max_position_embeddings": POSITIONS, "layer_norm_eps": EPSILON, **changes,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def write_colbert(folder: Path, **metadata: object) -> Path:
    """A checkpoint as ColBERT saves it: weights of the transformer and ``linear.weight`` in one file."""
    from safetensors.numpy import save_file

    write_config(folder, architectures=["HF_ColBERT"])
    weights = {f"bert.{name}": values for name, values in bert_weights().items()}
    save_file({**weights, "linear.weight": projection()}, str(folder / "model.safetensors"))
    tokenizer().save(str(folder / "tokenizer.json"))
    stated = {"query_token_id": MARKS[0], "doc_token_id": MARKS[1], "query_maxlen": 12, "dim": DIM, **metadata}
    (folder / "artifact.metadata").write_text(json.dumps(stated), encoding="utf-8")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n", encoding="utf-8")
    return folder


def write_pylate(folder: Path, **stated: object) -> Path:
    """A model as PyLate saves it: modules of sentence-transformers, marks that are added tokens."""
    from safetensors.numpy import save_file

    write_config(folder)
    save_file(bert_weights(), str(folder / "model.safetensors"))
    tokenizer(added=True).save(str(folder / "tokenizer.json"))
    write_dense(folder / "1_Dense")
    modules = [("", "sentence_transformers.models.Transformer"), ("1_Dense", "pylate.models.Dense.Dense")]
    listed = [{"idx": at, "name": str(at), "path": path, "type": kind} for at, (path, kind) in enumerate(modules)]
    (folder / "modules.json").write_text(json.dumps(listed), encoding="utf-8")
    options = {"query_prefix": "[Q] ", "document_prefix": "[D] ", "query_length": 10, "do_query_expansion": False}
    (folder / "config_sentence_transformers.json").write_text(json.dumps({**options, **stated}), encoding="utf-8")
    return folder


def write_dense(folder: Path, *, seed: int = 1, **changes: object) -> None:
    """The linear layer, in a folder of its own."""
    from safetensors.numpy import save_file

    folder.mkdir(exist_ok=True)
    activation = {"activation_function": "torch.nn.modules.linear.Identity"}
    config = {"in_features": WIDTH, "out_features": DIM, "bias": False, **activation, **changes}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file({"linear.weight": projection(seed)}, str(folder / "model.safetensors"))


def write_graph(file: Path) -> None:
    """A transformer of another kind as an ONNX graph: a token, and the mean of those its mask admits, half each."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    table = bert_weights()["embeddings.word_embeddings.weight"]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["own"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=1),
        helper.make_node("Unsqueeze", ["mask", "last"], ["column"]),
        helper.make_node("Mul", ["own", "column"], ["admitted"]),
        helper.make_node("ReduceSum", ["admitted", "tokens"], ["sum"], keepdims=1),
        helper.make_node("ReduceSum", ["column", "tokens"], ["count"], keepdims=1),
        helper.make_node("Div", ["sum", "count"], ["mean"]),
        helper.make_node("Add", ["own", "mean"], ["last_hidden_state"]),
    ]
    graph = helper.make_graph(
        nodes, "transformer",
        [helper.make_tensor_value_info(name, 7, ["b", "t"]) for name in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["b", "t", WIDTH])],
        [
            numpy_helper.from_array(table, "table"), numpy_helper.from_array(np.array([2]), "last"),
            numpy_helper.from_array(np.array([1]), "tokens"),
        ],
    )  # fmt: skip
    file.parent.mkdir(parents=True, exist_ok=True)
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(file))
