"""Sparse models of every layout become encoders that weigh texts as the model's definition says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from codequarry.pipelines.embed.export.sparse import DOCUMENTS, QUERIES, export_sparse
from codequarry.pipelines.embed.export.sparse_model import read_sparse_model
from codequarry.schemas.bundle.splade import MAX_IMPACT, QUERY_STEPS
from codequarry.schemas.errors import IntegrityError, InvalidArgumentError, MissingExtraError
from codequarry.serving.encoders.sparse import SparseEncoder, TermWeights, impacts_of, open_query_encoder
from codequarry.serving.encoders.spec import EncoderSpec, open_encoder
from tests.pipelines.embed.sparse_models import (
    ADDED,
    EXPANSIONS,
    STRONG,
    logits,
    tokenizer,
    vocabulary,
    write_graph,
    write_model,
    write_router,
)

TEXTS = ["remove expired session", "mix rows", "", "größe 日本 ?", "store " * 300]
IDS = vocabulary()


def expected(text: str, *, pooling: str = "max", twice: bool = False, tokens: int = 256) -> np.ndarray:
    """What SPLADE makes of a text: the pooled log(1 + relu) of the logits of its tokens, marks included."""
    made = tokenizer()
    made.enable_truncation(tokens)
    rows = np.maximum(logits()[made.encode(text).ids], 0)
    weights = np.log1p(np.log1p(rows)) if twice else np.log1p(rows)
    return weights.max(axis=0) if pooling == "max" else weights.sum(axis=0)


@pytest.mark.parametrize(("opset", "inputs"), [(13, 3), (17, 1), (18, 2), (21, 3)])
def test_a_graph_is_pooled_whatever_its_version_and_inputs(tmp_path: Path, opset: int, inputs: int) -> None:
    model = read_sparse_model(write_model(tmp_path / "model", opset=opset, inputs=inputs))
    spec = export_sparse(model, tmp_path / "made", max_tokens=256)
    encoder = SparseEncoder.open(tmp_path / "made" / DOCUMENTS)
    assert (spec.kind, spec.dim, spec.max_tokens, spec.name) == ("sparse", len(IDS), 256, "model")
    for text in TEXTS:
        np.testing.assert_allclose(encoder.weights(text), expected(text), atol=1e-6)
    assert not (tmp_path / "made" / QUERIES).exists()


def test_documents_are_steps_and_the_heaviest_fits(tmp_path: Path) -> None:
    export_sparse(read_sparse_model(write_model(tmp_path / "model")), tmp_path / "made", max_tokens=64)
    encoder = SparseEncoder.open(tmp_path / "made" / DOCUMENTS, threads=3)
    shown: list[int] = []
    found = encoder.encode_documents(TEXTS, shown.append)
    assert shown[-1] == len(TEXTS)
    for text, document in zip(TEXTS, found, strict=True):
        weights = expected(text, tokens=64)
        whole = np.zeros(len(IDS))
        whole[document.terms] = document.impacts * encoder.step
        np.testing.assert_allclose(whole, weights, atol=encoder.step / 2 + 1e-6)
        assert document.impacts.max(initial=0) <= MAX_IMPACT
    assert np.log1p(STRONG) < MAX_IMPACT * encoder.step < 2 * np.log1p(STRONG)
    assert [len(document.terms) for document in found][2] == 0
    alone = encoder.encode_documents([TEXTS[0]])[0]
    assert alone.terms.tolist() == found[0].terms.tolist() and alone.impacts.tolist() == found[0].impacts.tolist()


def test_a_query_has_its_words_and_what_the_model_adds(tmp_path: Path) -> None:
    export_sparse(read_sparse_model(write_model(tmp_path / "model")), tmp_path / "made", max_tokens=16)
    encoder = open_query_encoder(tmp_path / "made" / DOCUMENTS)
    query = encoder.encode_query("Expired rows")
    weights = dict(zip(query.terms.tolist(), (query.weights * query.step).tolist(), strict=True))
    assert query.weights.max() == QUERY_STEPS
    assert weights.keys() == {IDS["expired"], IDS["rows"], *(IDS[word] for word in EXPANSIONS["expired"])}
    assert weights[IDS["outdated"]] == pytest.approx(np.log1p(ADDED), abs=query.step)
    assert query.written == {IDS["expired"], IDS["rows"]}
    assert not query.cut and encoder.encode_query("rows " * 20).cut
    assert encoder.text(IDS["outdated"]) == "outdated"
    assert encoder.encode_query("").terms.tolist() == []
    assert encoder.encode_query("\ud800 rows").terms.tolist() == sorted([IDS["?"], IDS["rows"]])


def test_inference_free_queries_weigh_each_word_once(tmp_path: Path) -> None:
    model = read_sparse_model(write_router(tmp_path / "model", {"expired": 2.0, "rows": 0.5, "mix": -1.0}))
    assert (model.activation, model.license) == ("log1p_relu", "apache-2.0")
    export_sparse(model, tmp_path / "made", max_tokens=64)
    documents = SparseEncoder.open(tmp_path / "made" / DOCUMENTS)
    np.testing.assert_allclose(documents.weights("remove rows"), expected("remove rows", twice=True), atol=1e-6)
    encoder = open_query_encoder(tmp_path / "made" / QUERIES)
    assert isinstance(encoder, TermWeights)
    assert not (tmp_path / "made" / QUERIES / "model.onnx").exists()
    query = encoder.encode_query("rows expired rows mix delete")
    assert dict(zip(query.terms.tolist(), (query.weights * query.step).tolist(), strict=True)) == pytest.approx(
        {IDS["expired"]: 2.0, IDS["rows"]: 0.5}, abs=query.step
    )


def test_an_idf_file_beside_a_graph_makes_queries_inference_free(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    (folder / "idf.json").write_text(json.dumps({"rows": 3.0, "no such token": 9.0}))
    export_sparse(read_sparse_model(folder), tmp_path / "made", max_tokens=64)
    query = open_query_encoder(tmp_path / "made" / QUERIES).encode_query("rows expired")
    assert query.terms.tolist() == [IDS["rows"]]
    # The same folder without it is a model of the usual kind again, and nothing of before is left.
    (folder / "idf.json").unlink()
    export_sparse(read_sparse_model(folder), tmp_path / "made", max_tokens=64)
    assert not (tmp_path / "made" / QUERIES).exists()


def test_sums_over_tokens_and_prompts(tmp_path: Path) -> None:
    folder = write_router(tmp_path / "model", {"rows": 1.0})
    options = {"pooling_strategy": "sum", "activation_function": "relu"}
    (folder / "document_1_SpladePooling" / "config.json").write_text(json.dumps(options))
    prompts = {"prompts": {"query": "rows ", "document": "mix "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    export_sparse(read_sparse_model(folder), tmp_path / "made", max_tokens=64)
    encoder = SparseEncoder.open(tmp_path / "made" / DOCUMENTS)
    np.testing.assert_allclose(encoder.weights("rows rows"), expected("rows rows", pooling="sum"), atol=1e-5)
    found = encoder.encode_documents(["rows"])[0]
    assert found.terms.tolist() == impacts_of(expected("mix rows", pooling="sum"), encoder.step).terms.tolist()
    query = open_query_encoder(tmp_path / "made" / QUERIES).encode_query("expired")
    assert query.terms.tolist() == [IDS["rows"]] and query.written == {IDS["expired"]}


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    model = read_sparse_model(write_model(tmp_path / "model"))
    one, two = (export_sparse(model, tmp_path / name, max_tokens=64) for name in ("one", "two"))
    assert one == two
    other = export_sparse(model, tmp_path / "other", max_tokens=32)
    assert other.fingerprint != one.fingerprint


def spoil_modules(folder: Path) -> None:
    path = folder / "router_config.json"
    router = json.loads(path.read_text())
    router["types"]["document_1_SpladePooling"] = "sentence_transformers.sparse_encoder.modules.SparseAutoEncoder"
    path.write_text(json.dumps(router))


def spoil_weights(folder: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"weight": np.ones(7, np.float32)}, str(folder / "query_0_SparseStaticEmbedding" / "model.safetensors"))


def spoil_pooling(folder: Path) -> None:
    (folder / "document_1_SpladePooling" / "config.json").write_text('{"pooling_strategy": "mean"}')


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (shutil.rmtree, "no folder, expected a folder with a sparse model"),
        (lambda folder: (folder / "modules.json").write_text("{"), r"modules\.json: no JSON"),
        (lambda folder: shutil.rmtree(folder / "document_0_MLMTransformer"), "expected a masked language model"),
        (lambda folder: (folder / "document_0_MLMTransformer" / "tokenizer.json").unlink(), "no tokenizer.json"),
        (spoil_modules, "documents by MLMTransformer, SparseAutoEncoder, expected Transformer, SpladePooling"),
        (spoil_pooling, "pooling 'mean', expected max or sum"),
        (spoil_weights, r"query weights of shape \(7,\), expected"),
    ],
)
def test_a_folder_that_is_no_such_model_says_what_is_wrong(tmp_path: Path, spoil, said: str) -> None:
    folder = write_router(tmp_path / "model", {"rows": 1.0})
    spoil(folder)
    with pytest.raises(InvalidArgumentError, match=said) as caught:
        export_sparse(read_sparse_model(folder), tmp_path / "made", max_tokens=64)
    assert "[splade] model" in caught.value.suggestion


def test_a_graph_that_is_no_masked_language_model_is_refused(tmp_path: Path) -> None:
    import onnx

    folder = write_model(tmp_path / "model")
    graph = onnx.load(str(folder / "model.onnx"))
    graph.graph.output[0].type.tensor_type.shape.dim[2].dim_param = "terms"
    onnx.save_model(graph, str(folder / "model.onnx"))
    with pytest.raises(InvalidArgumentError, match="with a fixed number of terms"):
        export_sparse(read_sparse_model(folder), tmp_path / "made", max_tokens=64)
    write_graph(folder / "model.onnx", np.full((len(IDS), len(IDS)), -1, np.float32))
    with pytest.raises(InvalidArgumentError, match=r"weighs 0\.0, expected a positive number"):
        export_sparse(read_sparse_model(folder), tmp_path / "made", max_tokens=64)


def test_damage_and_other_kinds_are_refused(tmp_path: Path) -> None:
    made = tmp_path / "made"
    export_sparse(read_sparse_model(write_router(tmp_path / "model", {"rows": 1.0})), made, max_tokens=64)
    with pytest.raises(IntegrityError, match="gives terms, expected vectors of texts"):
        open_encoder(made / DOCUMENTS)
    with pytest.raises(IntegrityError, match="an encoder of kind term_weights, expected sparse"):
        SparseEncoder.open(made / QUERIES)
    weights = np.load(made / QUERIES / "weights.npy")
    np.save(made / QUERIES / "weights.npy", weights + 1)
    with pytest.raises(IntegrityError, match=r"weights\.npy: sha256"):
        open_query_encoder(made / QUERIES)
    np.save(made / DOCUMENTS / "step.npy", np.zeros(1, np.float32))
    spec = EncoderSpec.load(made / DOCUMENTS)
    EncoderSpec.seal(
        made / DOCUMENTS, kind="sparse", name="m", dim=spec.dim, max_tokens=64, license="unknown", source="m"
    )
    with pytest.raises(IntegrityError, match=r"step\.npy: 0\.0, expected a positive number"):
        SparseEncoder.open(made / DOCUMENTS)


def test_weights_that_are_no_numbers_count_as_nothing() -> None:
    weights = np.array([np.nan, 1.0, -5.0, np.inf], np.float32)
    found = impacts_of(weights, 0.5)
    assert (found.terms.tolist(), found.impacts.tolist()) == ([1, 3], [2, MAX_IMPACT])


def test_without_torch_a_model_without_a_graph_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_model(tmp_path / "model")
    (folder / "model.onnx").unlink()
    (folder / "config.json").write_text('{"model_type": "bert"}')
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingExtraError, match="a sparse model without an ONNX graph needs the extra 'transformers'"):
        export_sparse(read_sparse_model(folder), tmp_path / "made", max_tokens=64)
