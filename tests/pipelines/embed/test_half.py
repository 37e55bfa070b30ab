"""Float16 graphs for GPUs, run here by ONNX Runtime's CPU provider, against the float32 graphs of the same weights."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from safetensors.numpy import load_file

from codequarry.pipelines.embed import half, stage
from codequarry.pipelines.embed.encoders import encoder_directories
from codequarry.pipelines.embed.export import minilm_tokens
from codequarry.pipelines.embed.export.bert import write_model
from codequarry.pipelines.embed.export.minilm import SHIPPED_WEIGHTS, build_model, export_minilm, shipped_model
from codequarry.pipelines.embed.export.minilm_tokens import export_minilm_tokens
from codequarry.pipelines.embed.export.model import code_pieces
from codequarry.pipelines.embed.half import DOCUMENTS, HalfDocuments, HalfTokens, check_half, run_padded
from codequarry.pipelines.indexes.warp import token_codes
from codequarry.pipelines.indexes.warp.token_codes import TokenEncoding
from codequarry.pipelines.run import index_repositories
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.errors import IntegrityError, UnavailableError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.encoders.onnx import MODEL_FILE, open_session
from codequarry.serving.encoders.spec import TOKENIZER_FILE, EncoderSpec, open_encoder, open_tokenizer
from codequarry.serving.encoders.tokens import SCALES_FILE, TokenEncoder
from codequarry.serving.engine.engine import Engine
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.repositories import commit

LEAST_COSINE = 0.999
TEXTS = [*code_pieces(24), "", "x", "def pad(): return '[PAD] [PAD]'", "\ud800 alone"]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("half") / "minilm"
    export_minilm(folder, half=True)
    return folder


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("half") / "tokens"
    export_minilm_tokens(folder, half=True)
    return folder


def opened(folder: Path, device: str = "cpu") -> HalfDocuments:
    return HalfDocuments.open(folder, EncoderSpec.load(folder), device)


@pytest.mark.slow
def test_vectors_agree_with_those_of_the_float32_graph(vectors: Path, tmp_path: Path) -> None:
    write_model(build_model(load_file(shipped_model() / SHIPPED_WEIGHTS), 128, "float32"), tmp_path)
    shutil.copyfile(vectors / TOKENIZER_FILE, tmp_path / TOKENIZER_FILE)
    EncoderSpec.seal(
        tmp_path, kind="onnx", name="float32", dim=384, max_tokens=128, license="Apache-2.0", source="a test"
    )
    made = opened(vectors).encode_documents(TEXTS)
    assert made.dtype == np.float32
    assert np.abs(np.linalg.norm(made, axis=1) - 1).max() < 1e-5
    assert (made * open_encoder(tmp_path).encode_documents(TEXTS)).sum(axis=1).min() >= LEAST_COSINE


@pytest.mark.slow
def test_vectors_of_tokens_agree_with_those_of_the_float32_graph(tokens: Path, tmp_path: Path) -> None:
    graph = onnx.load(str(tokens / DOCUMENTS / MODEL_FILE)).graph
    constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    axes = constants["middle"], constants["projection"]
    minilm_tokens._write_graph(tmp_path, shipped_model(), 512, axes, "float32")
    exact, ours = (
        open_session(tmp_path / MODEL_FILE, (None, 128)),
        open_session(tokens / DOCUMENTS / MODEL_FILE, (None, 128), texts=None),
    )
    tokenizer = open_tokenizer(tokens, EncoderSpec.load(tokens))
    ids = [tokenizer.encode(text).ids for text in TEXTS[:8]]
    for own, found in zip(ids, run_padded(ours, ids), strict=True):
        expected = np.asarray(exact.run(None, {"input_ids": np.array([own], np.int64)})[0])[0]
        assert (expected * found[: len(own)]).sum(axis=1).min() >= LEAST_COSINE


def test_codes_of_tokens_are_those_of_the_int8_graph_but_for_a_few_steps(tokens: Path) -> None:
    ours = HalfTokens.open(tokens, "cpu").encode_documents(TEXTS[-8:])
    theirs = TokenEncoder.open(tokens).encode_documents(TEXTS[-8:])
    scales = np.load(tokens / SCALES_FILE)
    for own, other in zip(ours, theirs, strict=True):
        assert (own.shape, own.dtype) == (other.shape, np.int8)
        one, two = own * scales, other * scales
        cosines = (one * two).sum(axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(two, axis=1)
        assert cosines.mean() > 0.97


@pytest.mark.parametrize("kind", ["vectors", "tokens"])
def test_all_weights_of_the_transformer_have_half_precision(kind: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(kind) / DOCUMENTS
    graph = onnx.load(str(folder / MODEL_FILE)).graph
    floats = {each.name for each in graph.initializer if each.data_type == onnx.TensorProto.FLOAT}
    assert floats <= {"middle", "projection"}  # behind the transformer, on vectors in float32
    halves = [each for each in graph.initializer if each.data_type == onnx.TensorProto.FLOAT16]
    assert sum(numpy_helper.to_array(each).size for each in halves) > 22_000_000
    assert {node.op_type for node in graph.node} & {"DynamicQuantizeMatMul", "LpNormalization"} == set()
    assert graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT


def test_a_text_is_the_same_alone_and_among_longer_ones(vectors: Path) -> None:
    encoder = opened(vectors)
    together = encoder.encode_documents(TEXTS)
    alone = np.concatenate([encoder.encode_documents([text]) for text in TEXTS[-8:]])
    assert np.abs(alone - together[-8:]).max() < 1e-3


def test_a_fingerprint_tells_half_precision_and_queries_stay_with_int8(
    vectors: Path, tokens: Path, minilm_directory: Path, token_directory: Path
) -> None:
    for folder, plain in ((vectors, minilm_directory), (tokens, token_directory)):
        spec, other = EncoderSpec.load(folder), EncoderSpec.load(plain)
        assert spec.fingerprint != other.fingerprint
        assert spec.sha256 == other.sha256, "the query encoder is that of a version without GPU"
        assert EncoderSpec.load(folder / DOCUMENTS).fingerprint in (spec.documents or "")
    query = open_encoder(vectors).encode_query("parse a date")
    np.testing.assert_array_equal(query, open_encoder(minilm_directory).encode_query("parse a date"))


def test_two_exports_are_the_same_bytes(vectors: Path, tmp_path: Path) -> None:
    assert export_minilm(tmp_path, half=True) == EncoderSpec.load(vectors)


def test_a_graph_that_is_not_the_named_one_is_refused(vectors: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(vectors, copied)
    spec = EncoderSpec.load(copied)
    export_minilm(tmp_path / "short", max_tokens=64, half=True)
    shutil.rmtree(copied / DOCUMENTS)
    shutil.copytree(tmp_path / "short" / DOCUMENTS, copied / DOCUMENTS)
    with pytest.raises(IntegrityError, match="float16 graph"):
        check_half(copied, spec)
    (copied / DOCUMENTS / MODEL_FILE).write_bytes(b"damaged")
    with pytest.raises(IntegrityError, match="sha256"):
        opened(copied)
    shutil.rmtree(copied / DOCUMENTS)
    with pytest.raises(IntegrityError, match="cannot be read"):
        check_half(copied, spec)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vectors", "tokens"])
def test_two_devices_share_the_texts_and_give_what_one_does(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions on the CPU stand for devices."""
    folder = request.getfixturevalue(kind)
    monkeypatch.setattr(half, "BATCH_TOKENS", 1_024)
    together, used = threading.Barrier(2), set()

    def session(path: Path, shape: tuple[int | None, ...], device: str, *, texts: int | None) -> SimpleNamespace:
        real, lock = open_session(path, shape, texts=texts), threading.Lock()

        def run(*arguments: object) -> object:
            with lock:
                first = device not in used
                used.add(device)
            if first:
                together.wait(20)  # so that each device gets some
            return real.run(*arguments)

        return SimpleNamespace(run=run)

    def encode(device: str) -> tuple[str, list[np.ndarray]]:
        encoder = opened(folder, device) if kind == "vectors" else HalfTokens.open(folder, device)
        return encoder.device, list(encoder.encode_documents(TEXTS[-10:]))

    one = encode("cpu")
    monkeypatch.setattr(half, "open_session", session)
    two = encode("cuda:0,cuda:1")
    assert (one[0], two[0], used) == ("cpu", "cuda:0, cuda:1", {"cuda:0", "cuda:1"})
    for own, other in zip(two[1], one[1], strict=True):
        np.testing.assert_array_equal(own, other)


def full(tokens_fit: int) -> SimpleNamespace:
    """Session of a device with room for some tokens; gives the number of tokens of each text."""

    def run(_: None, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        ids = inputs["input_ids"]
        if ids.size > tokens_fit:
            raise RuntimeError("Failed to allocate memory for requested buffer of size 805306368")
        return [(ids != half.PADDING).sum(axis=1)]

    return SimpleNamespace(run=run)


def test_texts_that_do_not_fit_into_memory_are_run_in_halves() -> None:
    ids = [[1] * length for length in (9, 8, 7, 5, 2, 1, 1)]
    assert [int(count) for count in run_padded(full(12), ids)] == [len(own) for own in ids]
    with pytest.raises(UnavailableError, match="a single text does not fit"):
        run_padded(full(8), ids)


def test_another_error_of_a_device_is_raised_as_it_is() -> None:
    def run(*_: object) -> None:
        raise RuntimeError("CUDA failure 700: an illegal address was encountered")

    with pytest.raises(RuntimeError, match="CUDA failure 700"):
        run_padded(SimpleNamespace(run=run), [[1], [2]])


def test_token_codes_are_kept_by_the_kind_of_device(tokens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = EncoderSpec.load(tokens)

    def encoding(device: str) -> TokenEncoding:
        return TokenEncoding(tokens, spec.fingerprint, spec.dim, punctuation=False, threads=1, device=device)

    files = {encoding(device).file(Path("store")) for device in ("cuda", "cuda:1", "cuda:0,cuda:1")}
    assert len(files) == 1
    assert encoding("cpu").file(Path("store")) not in files
    asked: list[str] = []
    monkeypatch.setattr(token_codes.HalfTokens, "open", lambda _, device, **__: asked.append(device))
    encoding("cuda:0,cuda:1").open()
    assert asked == ["cuda:0,cuda:1"]


FILES = {f"part{number}.py": f"def read_rows_{number}(path):\n    return open(path)\n" for number in range(12)}


@pytest.mark.slow
def test_a_version_is_built_by_half_precision_and_served_by_int8(
    tmp_path: Path, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def on_cpu(folder: Path, shape: tuple[int | None, ...], names: tuple[str, ...]) -> list[object]:
        return [open_session(folder / DOCUMENTS / MODEL_FILE, shape, texts=None) for _ in names]

    monkeypatch.setattr(half, "_open_sessions", on_cpu)
    monkeypatch.setattr(stage, "_open_encoder", stage._open_encoder.__wrapped__)
    commit(tmp_path / "shop", FILES)
    embedding = {"model": "minilm", "device": "cuda:0,cuda:1"}
    settings = make_settings(tmp_path / "shop", embedding=embedding, warp={"enabled": True, "device": "cuda"})
    report = index_repositories(settings)
    (leg,) = report.embeddings[0].legs
    assert (leg.use.device, leg.use.asked, leg.use.fell_back) == ("cuda:0, cuda:1", True, False)
    assert leg.embedded > 0 and report.embeddings[0].texts_per_second > 0
    paths = BundlePaths(report.path)
    (folder,) = encoder_directories(settings).values()
    assert (folder / DOCUMENTS).is_dir() and not (paths.encoder / DOCUMENTS).exists()
    assert not (paths.warp / "encoder" / DOCUMENTS).exists()
    assert report.manifest.legs[0].encoder.fingerprint == EncoderSpec.load(folder).fingerprint
    engine = Engine.open(settings.bundle.root, ServingSettings())
    for channel in ("faiss", "warp"):
        answer = engine.search(SearchRequest.model_validate({"query": "read rows 7 path", "channel": channel}))
        assert answer.results, channel
    engine.close()
    assert index_repositories(settings).unchanged
    on_one = settings.model_copy(update={"embedding": settings.embedding.model_copy(update={"device": "cuda:1"})})
    assert index_repositories(on_one).unchanged
    plain = settings.model_copy(update={"embedding": settings.embedding.model_copy(update={"device": ""})})
    other = index_repositories(plain)
    assert not other.unchanged
    assert other.embeddings[0].embedded == leg.embedded, "no vector of float16 is taken for one of int8"


def test_a_gpu_that_is_not_there_is_an_error(tmp_path: Path, make_settings: MakeSettings) -> None:
    commit(tmp_path / "shop", {"new.py": "def embedded_by_no_other_test():\n    pass\n"})
    settings = make_settings(tmp_path / "shop", embedding={"model": "minilm", "device": "cuda:7"})
    with pytest.raises(UnavailableError, match="for device cuda:7"):
        index_repositories(settings)
