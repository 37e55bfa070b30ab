"""Models for late interaction, exported: each layout against a plain forward pass, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from codequarry.pipelines.embed.export import token_export
from codequarry.pipelines.embed.export.token_export import export_tokens
from codequarry.pipelines.embed.export.token_model import read_token_model
from codequarry.pipelines.embed.half import HalfTokens
from codequarry.schemas.errors import InvalidArgumentError, MissingExtraError
from codequarry.serving.encoders.spec import EncoderSpec
from codequarry.serving.encoders.tokens import SCALES_FILE, TokenEncoder
from codequarry.serving.files.arrays import read_array
from tests.pipelines.embed import late_models

TEXT = "def remove_expired(self, key):\n    return self.store"
QUERY = "where are the expired, deleted session"
IDS = late_models.vocabulary()


def exported(folder: Path, target: Path, *, max_tokens: int = 64, punctuation: bool = True) -> TokenEncoder:
    export_tokens(read_token_model(folder), target, max_tokens=max_tokens)
    return TokenEncoder.open(target, punctuation=punctuation)


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights stay as they are."""
    monkeypatch.setattr(token_export, "LEAST_COSINE", 1.1)


def ids_of(text: str, mark: str) -> list[int]:
    ids = late_models.tokenizer().encode(text).ids
    return [ids[0], IDS[mark], *ids[1:]]


def filled(text: str, mark: str, length: int) -> tuple[list[int], int]:
    """Tokens of a query filled up with mask tokens, and how many were there before."""
    ids = ids_of(text, mark)
    return ids + [IDS["[MASK]"]] * (length - len(ids)), len(ids)


def test_a_checkpoint_of_colbert_gives_the_vectors_of_a_plain_forward_pass(tmp_path: Path, exact: None) -> None:
    encoder = exported(late_models.write_colbert(tmp_path / "model"), tmp_path / "out")
    assert encoder.spec.agreement is not None
    assert (encoder.spec.agreement.weights, encoder.spec.agreement.mean) == ("float32", 1.0)
    assert (encoder.spec.dim, encoder.spec.max_tokens, encoder.spec.license) == (late_models.DIM, 64, "mit")
    expected = late_models.token_vectors(ids_of(TEXT, "[unused1]"))
    np.testing.assert_allclose(encoder.document_vectors(TEXT), expected, atol=1e-5)
    query = encoder.encode_query(QUERY)
    ids, length = filled(QUERY, "[unused0]", 12)
    assert length < 12
    np.testing.assert_allclose(query.vectors, late_models.token_vectors(ids, length), atol=1e-5)
    # The mark and what fills the query up have no place in its text.
    assert query.texts == ("", "", "where", "are", "the", "expired", ",", "delete", "d", "session", "", "")


def test_mask_tokens_are_attended_to_where_the_checkpoint_says_so(tmp_path: Path, exact: None) -> None:
    folder = late_models.write_colbert(tmp_path / "model", attend_to_mask_tokens=True)
    ids, length = filled("expired session", "[unused0]", 12)
    found = exported(folder, tmp_path / "out").encode_query("expired session").vectors
    np.testing.assert_allclose(found, late_models.token_vectors(ids), atol=1e-5)
    assert np.abs(found - late_models.token_vectors(ids, length)).max() > 1e-3


def test_a_model_of_pylate_has_added_marks_and_need_not_fill_up(tmp_path: Path, exact: None) -> None:
    encoder = exported(late_models.write_pylate(tmp_path / "model"), tmp_path / "out")
    np.testing.assert_allclose(
        encoder.document_vectors(TEXT), late_models.token_vectors(ids_of(TEXT, "[D] ")), atol=1e-5
    )
    query = encoder.encode_query("expired session")
    np.testing.assert_allclose(query.vectors, late_models.token_vectors(ids_of("expired session", "[Q] ")), atol=1e-5)
    long = encoder.encode_query("session " * 30)
    assert (len(long.vectors), long.cut, query.cut) == (10, True, False)
    assert (encoder.spec.query_prefix, encoder.spec.document_prefix) == ("[Q] ", "[D] ")


def test_prompts_stand_behind_the_marks(tmp_path: Path, exact: None) -> None:
    folder = late_models.write_pylate(tmp_path / "model", prompts={"query": "find: ", "document": ""})
    found = exported(folder, tmp_path / "out").encode_query("session").vectors
    np.testing.assert_allclose(found, late_models.token_vectors(ids_of("find: session", "[Q] ")[:10]), atol=1e-5)


def test_without_marks_and_lengths_a_query_is_read_like_a_document(tmp_path: Path, exact: None) -> None:
    folder = late_models.write_pylate(tmp_path / "model")
    (folder / "config_sentence_transformers.json").unlink()
    encoder = exported(folder, tmp_path / "out")
    assert (encoder.spec.query_prefix, encoder.spec.query_shape) == ("", None)
    ids = late_models.tokenizer().encode("expired session").ids
    found = encoder.encode_query("expired session").vectors
    np.testing.assert_allclose(found, late_models.token_vectors(ids), atol=1e-5)


@pytest.mark.parametrize("projected", [False, True], ids=["projection beside it", "no projection"])
def test_a_graph_of_another_architecture_is_kept(tmp_path: Path, projected: bool) -> None:
    folder = late_models.write_pylate(tmp_path / "model", query_length=6, do_query_expansion=True)
    (folder / "model.safetensors").unlink()
    (folder / "config.json").unlink()
    late_models.write_graph(folder / "onnx" / "model.onnx")
    if projected:
        wide = json.loads((folder / "modules.json").read_text())[:1]
        (folder / "modules.json").write_text(json.dumps(wide))
    encoder = exported(folder, tmp_path / "out")
    table = late_models.bert_weights()["embeddings.word_embeddings.weight"].astype(np.float64)
    ids, length = filled("key", "[Q] ", 6)
    expected = table[ids] + table[ids[:length]].mean(axis=0)
    if not projected:
        expected = expected @ late_models.projection().T.astype(np.float64)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode_query("key").vectors, expected, atol=1e-5)


def test_documents_in_half_precision_agree_and_queries_stay_as_they_are(tmp_path: Path) -> None:
    model = read_token_model(late_models.write_colbert(tmp_path / "model"))
    plain = export_tokens(model, tmp_path / "plain", max_tokens=64)
    spec = export_tokens(model, tmp_path / "out", max_tokens=64, half=True)
    assert (spec.sha256, spec.query_shape) == (plain.sha256, plain.query_shape)
    assert spec.fingerprint != plain.fingerprint
    texts = [TEXT, "key", f"{TEXT}\n{TEXT}"]
    codes = HalfTokens.open(tmp_path / "out", "cpu", punctuation=True).encode_documents(texts)
    expected = late_models.token_vectors(ids_of(TEXT, "[unused1]"))
    vectors = codes[0] * read_array(tmp_path / "out" / SCALES_FILE)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert (vectors * expected).sum(axis=1).min() > 0.999
    assert [len(each) for each in codes] == [len(ids_of(text, "[unused1]")) for text in texts]


def test_int8_is_kept_where_it_agrees(tmp_path: Path) -> None:
    encoder = exported(late_models.write_colbert(tmp_path / "model"), tmp_path / "out")
    agreement = encoder.spec.agreement
    assert agreement is not None
    assert agreement.weights == "int8"
    assert agreement.least <= agreement.mean <= 1
    expected = late_models.token_vectors(ids_of(TEXT, "[unused1]"))
    assert (encoder.document_vectors(TEXT) * expected).sum(axis=1).mean() > 0.99


def test_two_exports_are_the_same_bytes(tmp_path: Path) -> None:
    folder = late_models.write_colbert(tmp_path / "model")
    first, second = (export_tokens(read_token_model(folder), tmp_path / name, max_tokens=64) for name in ("a", "b"))
    assert first == second
    assert EncoderSpec.load(tmp_path / "a") == first


def test_texts_are_read_as_far_as_the_model_can(tmp_path: Path) -> None:
    encoder = exported(late_models.write_colbert(tmp_path / "model"), tmp_path / "out", max_tokens=512)
    assert encoder.spec.max_tokens == late_models.POSITIONS
    assert len(encoder.document_vectors("key " * 300)) == late_models.POSITIONS


def test_what_cannot_be_used_is_refused_with_what_was_found(tmp_path: Path) -> None:
    def refused(folder: Path, match: str) -> None:
        with pytest.raises(InvalidArgumentError, match=match) as caught:
            export_tokens(read_token_model(folder), tmp_path / "out", max_tokens=64)
        assert "[warp] model" in caught.value.suggestion

    refused(tmp_path / "nowhere", "no folder")
    folder = late_models.write_colbert(tmp_path / "one")
    (folder / "tokenizer.json").unlink()
    refused(folder, r"no tokenizer\.json")
    (folder / "tokenizer.json").write_text("{}")
    refused(folder, "no tokenizer, expected")
    folder = late_models.write_colbert(tmp_path / "two")
    late_models.write_config(folder, model_type="modernbert")
    refused(folder, r"model_type 'modernbert', expected 'bert', or an ONNX graph .* model\.onnx")
    late_models.write_config(folder, num_hidden_layers=7)
    refused(folder, "no fitting weights")
    late_models.write_config(folder)
    (folder / "model.safetensors").write_bytes(b"pickle")
    refused(folder, "cannot be read")
    (folder / "model.safetensors").unlink()
    refused(folder, r"neither model\.onnx nor model\.safetensors")
    folder = late_models.write_colbert(tmp_path / "three", query_token_id="[none]")
    refused(folder, r"no token '\[none\]'")
    folder = late_models.write_pylate(tmp_path / "four")
    late_models.write_dense(folder / "1_Dense", activation_function="torch.nn.modules.activation.Tanh")
    refused(folder, "Tanh")
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = "sentence_transformers.models.Pooling"
    (folder / "modules.json").write_text(json.dumps(modules))
    refused(folder, "modules Transformer, Pooling, expected a Transformer, then Dense layers")


def test_without_onnx_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = read_token_model(late_models.write_colbert(tmp_path / "model"))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match="models"):
        export_tokens(model, tmp_path / "out", max_tokens=64)
