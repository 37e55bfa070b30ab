"""Sparse models made here: a masked language model as an ONNX graph whose expansions are known, in every layout."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (
    "session expired remove delete outdated store visitor file open read csv rows color blend mix red green blue retry "
    "call error attempts return def class self key value entries path split until now keeps where are the of three a"
).split()
EXPANSIONS = {"expired": ("outdated",), "remove": ("delete",), "session": ("visitor",), "mix": ("blend", "color")}
"""What the model adds to a word."""
STRONG, ADDED, NOTHING = 4.0, 2.0, -1.0


def vocabulary() -> dict[str, int]:
    """Words as they are, and every letter, so that no text is unknown."""
    letters = [f"{mark}{chr(code)}" for mark in ("", "##") for code in range(33, 127) if not chr(code).isupper()]
    terms = dict.fromkeys([*SPECIAL, *WORDS, *letters, "##s", "##ed"])
    return {term: number for number, term in enumerate(terms)}


def tokenizer() -> Tokenizer:
    """WordPiece over `vocabulary`, with marks around a text."""
    made = Tokenizer(models.WordPiece(vocabulary(), unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    ids = vocabulary()
    made.add_special_tokens(list(SPECIAL))
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(mark, ids[mark]) for mark in ("[CLS]", "[SEP]")]
    )
    return made


def logits() -> np.ndarray:
    """(V, V) float32: what each token says of each term."""
    ids = vocabulary()
    table = np.full((len(ids), len(ids)), NOTHING, np.float32)
    for word in ids.values():
        table[word, word] = STRONG
    for word, added in EXPANSIONS.items():
        for other in added:
            table[ids[word], ids[other]] = ADDED
    table[[ids[mark] for mark in SPECIAL]] = NOTHING
    return table


def write_graph(file: Path, table: np.ndarray, *, opset: int = 17, inputs: int = 3) -> None:
    """Logits (batch, t, V) of ``input_ids``, masked; token types count, so that wrong ones would show."""
    names = ["input_ids", "attention_mask", "token_type_ids"][:inputs]
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["found"])]
    last = "found"
    for name, sign in (("attention_mask", 1.0), ("token_type_ids", -50.0)):
        if name in names:
            # 1 * (mask - 1) * 100 takes padding out; -50 * type takes other types out.
            nodes += [
                helper.make_node("Cast", [name], [f"{name}.f"], to=1),
                helper.make_node("Sub", [f"{name}.f", "one" if sign > 0 else "zero"], [f"{name}.s"]),
                helper.make_node("Mul", [f"{name}.s", f"{name}.by"], [f"{name}.m"]),
                helper.make_node("Unsqueeze", [f"{name}.m", "last"], [f"{name}.u"]),
                helper.make_node("Add", [last, f"{name}.u"], [f"{name}.out"]),
            ]
            last = f"{name}.out"
    nodes.append(helper.make_node("Identity", [last], ["logits"]))
    constants = {
        "table": table, "one": np.ones(1, np.float32), "zero": np.zeros(1, np.float32), "last": np.array([2]),
        "attention_mask.by": np.full(1, 100, np.float32), "token_type_ids.by": np.full(1, -50, np.float32),
    }  # fmt: skip
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes, "mlm",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in names],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "tokens", table.shape[1]])],
        [numpy_helper.from_array(values, name) for name, values in constants.items() if name in used],
    )  # fmt: skip
    file.parent.mkdir(parents=True, exist_ok=True)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(made)
    onnx.save_model(made, str(file))


def write_model(folder: Path, *, opset: int = 17, inputs: int = 3) -> Path:
    """A folder of nothing but a graph and its tokenizer."""
    write_graph(folder / "model.onnx", logits(), opset=opset, inputs=inputs)
    tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def write_router(folder: Path, weights: dict[str, float]) -> Path:
    """The layout of sentence-transformers for inference-free queries: a router, a graph, weights of tokens."""
    from safetensors.numpy import save_file

    package = "sentence_transformers.sparse_encoder.modules"
    kinds = {
        "query_0_SparseStaticEmbedding": f"{package}.sparse_static_embedding.SparseStaticEmbedding",
        "document_0_MLMTransformer": f"{package}.mlm_transformer.MLMTransformer",
        "document_1_SpladePooling": f"{package}.splade_pooling.SpladePooling",
    }
    query, model, pooling = kinds
    write_model(folder / model)
    for name in (query, pooling):
        (folder / name).mkdir()
    array = np.zeros(len(vocabulary()), np.float32)
    for word, weight in weights.items():
        array[vocabulary()[word]] = weight
    save_file({"weight": array}, str(folder / query / "model.safetensors"))
    tokenizer().save(str(folder / query / "tokenizer.json"))
    texts = {
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.router.Router"}
        ],
        "router_config.json": {"types": kinds, "structure": {"query": [query], "document": [model, pooling]}},
        f"{query}/config.json": {"frozen": True},
        f"{pooling}/config.json": {"pooling_strategy": "max", "activation_function": "log1p_relu"},
        "config_sentence_transformers.json": {"prompts": {"query": "", "document": ""}},
    }
    for name, content in texts.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n", encoding="utf-8")
    return folder
