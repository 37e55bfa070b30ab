"""Models of sentence-transformers and transformers, small ones, on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="run `make test-models`")

from codequarry.pipelines.embed.encoders import encoder_directories
from codequarry.pipelines.embed.export import model as model_export
from codequarry.pipelines.embed.export.model import LEAST_COSINE, code_pieces, export_model
from codequarry.pipelines.embed.torch import FIRST_BATCH, TorchEncoder, load_model
from codequarry.pipelines.evaluation.local_chat import local_chat
from codequarry.pipelines.run import index_repositories
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.errors import InvalidArgumentError, UnavailableError
from codequarry.schemas.prefixes import CODE_QUERY
from codequarry.schemas.settings.embedding import EmbeddingSettings
from codequarry.schemas.settings.load import (
    BundleSettings,
    PathsSettings,
    RepositorySettings,
    ServingSettings,
    Settings,
)
from codequarry.schemas.wire.search import SearchRequest
from codequarry.serving.encoders.spec import EncoderSpec, open_encoder
from codequarry.serving.engine.engine import Engine
from codequarry.serving.ranking.listwise import Candidate, messages_for, parsed_order
from codequarry.serving.ranking.rerank import Reranker
from tests.endpoint_server import endpoint_server
from tests.pipelines.corpus import write_shop

# Warnings of torch and transformers are theirs.
pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]


def settings_for(folder: Path, home: Path, **options: object) -> Settings:
    embedding = EmbeddingSettings.model_validate({"model": str(folder), "max_tokens": 64, **options})
    listed = (RepositorySettings(path=write_shop(home)),)
    settings = Settings(
        embedding=embedding,
        paths=PathsSettings(store=home / "store", work=home / "work"),
        bundle=BundleSettings(root=home / "bundles"),
    )
    return settings.model_copy(update={"sources": settings.sources.model_copy(update={"repositories": listed})})


@pytest.mark.parametrize("trusted", [False, True], ids=["bert", "code of its own"])
def test_an_export_agrees_with_the_model_and_says_how_far(
    trusted: bool, tiny_bert: Path, tiny_nomic: Path, tmp_path: Path
) -> None:
    folder = tiny_nomic if trusted else tiny_bert
    embedding = EmbeddingSettings(model=str(folder), max_tokens=64, trust_remote_code=trusted)
    spec = export_model(tmp_path / "out", embedding, measured_on=200)
    assert spec.agreement is not None
    assert spec.agreement.mean >= LEAST_COSINE
    assert (spec.dim, spec.max_tokens, spec.agreement.texts) == (32, 64, 200)
    assert spec.query_prefix == (CODE_QUERY if trusted else "")
    texts = code_pieces(40)
    original = TorchEncoder(load_model(embedding, device="cpu", plain=True)).encode(texts)
    exported = open_encoder(tmp_path / "out", threads=2).encode_documents(texts)
    assert (original * exported).sum(axis=1).mean() >= LEAST_COSINE


def coarsely(source: Path, target: Path) -> None:
    """Keeps of the largest matrices no more than signs."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(source))
    for tensor in graph.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.ndim == 2 and values.dtype == np.float32:
            tensor.CopyFrom(numpy_helper.from_array(np.sign(values) * np.float32(0.05), tensor.name))
    onnx.save(graph, str(target))


def test_where_int8_disagrees_the_original_weights_are_kept(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedding = EmbeddingSettings(model=str(tiny_bert), max_tokens=64)
    with monkeypatch.context() as patched:
        patched.setattr(model_export, "_quantize", coarsely)
        spec = export_model(tmp_path / "out", embedding, measured_on=50)
    assert spec.agreement is not None
    assert (spec.agreement.weights, spec.agreement.mean) == ("float32", 1.0)
    monkeypatch.setattr(model_export, "LEAST_COSINE", 1.1)
    with pytest.raises(UnavailableError, match="agrees with the model at a mean cosine of") as caught:
        export_model(tmp_path / "out", embedding, measured_on=20)
    assert "[embedding] endpoint" in caught.value.suggestion


def test_code_of_a_model_runs_only_when_it_is_trusted_at_a_commit(tiny_nomic: Path) -> None:
    with pytest.raises(UnavailableError, match="cannot be loaded"):
        load_model(EmbeddingSettings(model=str(tiny_nomic)), device="cpu")
    for revision in ("", "main", "abc123"):
        with pytest.raises(InvalidArgumentError, match="expected a commit"):
            load_model(EmbeddingSettings(model="some/model", trust_remote_code=True, revision=revision), device="cpu")


def test_a_model_that_is_not_there_is_said_with_the_remedies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UnavailableError, match="cannot be loaded") as caught:
        load_model(EmbeddingSettings(model=str(tmp_path / "nowhere")), device="cpu")
    assert "[embedding] endpoint" in caught.value.suggestion


def test_batches_are_by_length_and_halved_when_memory_ends(tiny_bert: Path) -> None:
    model = load_model(EmbeddingSettings(model=str(tiny_bert), max_tokens=64), device="cpu")
    texts = ["word " * (1 + n * 7 % 50) for n in range(150)]
    expected = TorchEncoder(model).encode(texts)
    encoder, run, sizes = TorchEncoder(model), TorchEncoder._run, []

    def limited(self: TorchEncoder, batch: list[str]) -> np.ndarray:
        sizes.append(len(batch))
        assert [len(text) for text in batch] == sorted((len(text) for text in batch), reverse=True)
        if len(batch) > 10:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return run(self, batch)

    progress: list[int] = []
    TorchEncoder._run = limited
    try:
        found = encoder.encode(texts, progress.append)
    finally:
        TorchEncoder._run = run
    assert sizes[:3] == [FIRST_BATCH, FIRST_BATCH // 2, FIRST_BATCH // 4]
    assert progress[-1] == len(texts)
    assert (found * expected).sum(axis=1).min() > 0.99  # in bfloat16 padding shows

    def never(self: TorchEncoder, batch: list[str]) -> np.ndarray:
        raise MemoryError

    TorchEncoder._run = never
    try:
        with pytest.raises(UnavailableError, match="single text does not fit"):
            encoder.encode(["x"])
    finally:
        TorchEncoder._run = run


@pytest.mark.parametrize("device", ["", "cpu"])
def test_from_a_folder_to_the_answer(tiny_nomic: Path, tmp_path: Path, device: str, monkeypatch) -> None:
    monkeypatch.setattr(model_export, "MEASURED_ON", 30)
    settings = settings_for(tiny_nomic, tmp_path, trust_remote_code=True, device=device)
    report = index_repositories(settings)
    spec = EncoderSpec.load(BundlePaths(report.path).encoder)
    assert (spec.documents, spec.query_prefix, spec.name) == (
        "torch on cpu" if device else None, CODE_QUERY, "tiny-CodeRankEmbed",
    )  # fmt: skip
    engine = Engine.open(settings.bundle.root, ServingSettings())
    answer = engine.search(SearchRequest(query="sum of all prices", channel="faiss"))
    engine.close()
    assert answer.limits == []
    assert len(answer.results) > 2
    assert index_repositories(settings).unchanged
    other = settings.model_copy(update={"embedding": settings.embedding.model_copy(update={"max_tokens": 32})})
    (folder,) = encoder_directories(other).values()
    assert EncoderSpec.load(folder).fingerprint != spec.fingerprint


def test_a_version_by_such_a_model_is_searched_without_torch(tiny_bert: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(model_export, "MEASURED_ON", 30)
    settings = settings_for(tiny_bert, tmp_path)
    index_repositories(settings)
    program = (
        "import sys\n"
        "for name in ('torch', 'transformers', 'sentence_transformers', 'onnx'): sys.modules[name] = None\n"
        "from codequarry.pipelines.cli.root import main; main()\n"
    )
    command = [sys.executable, "-c", program, "search", "sum of all prices", "--channel", "faiss", "--json"]
    done = subprocess.run(
        [*command, "--root", str(settings.bundle.root)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["limits"] == []


def test_a_language_model_run_here_is_deterministic_and_can_only_permute(tiny_qwen: Path) -> None:
    chat = local_chat(str(tiny_qwen), device="cpu")
    messages = messages_for("sort rows", [Candidate(f"p{at}", f"f{at}", "def f(): pass") for at in range(4)])
    said = chat(messages, 24)
    assert chat(messages, 24) == said
    with pytest.raises(ValueError, match=r"JSON|list"):
        parsed_order(said, 4)
    with pytest.raises(UnavailableError, match="cannot be loaded"):
        local_chat(str(tiny_qwen.parent))


def test_what_a_model_with_random_weights_says_leaves_the_order(
    tiny_qwen: Path, tiny_bert: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(model_export, "MEASURED_ON", 30)
    settings = settings_for(tiny_bert, tmp_path)
    index_repositories(settings)
    engine = Engine.open(settings.bundle.root, ServingSettings())
    plain = engine.search(SearchRequest(query="price"))
    engine.reranker = Reranker(local_chat(str(tiny_qwen), device="cpu"), candidates=5, budget_s=60)
    engine.settings = engine.settings.model_copy(update={"reranker_always": True})
    found = engine.search(SearchRequest(query="price"))
    engine.close()
    assert found.results == plain.results
    assert "the language model did not rerank: what it said is no JSON" in " ".join(found.limits)


def test_a_language_model_behind_a_server_leaves_the_order_when_it_says_nonsense(
    tiny_qwen: Path, tiny_bert: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(model_export, "MEASURED_ON", 30)
    settings = settings_for(tiny_bert, tmp_path)
    index_repositories(settings)
    chat = local_chat(str(tiny_qwen), device="cpu")
    with endpoint_server() as server:  # it speaks the protocol of vLLM
        server.chat = lambda payload: chat(payload["messages"], 24)
        named = {"reranker_endpoint": server.url, "reranker_model": "nomic-ai/CodeRankLLM"}
        asking = ServingSettings.model_validate({**named, "reranker_budget_ms": 60_000, "reranker_always": True})
        engine = Engine.open(settings.bundle.root, asking)
        found = engine.search(SearchRequest(query="price"))
        engine.close()
        assert {request.payload["model"] for request in server.requests} == {"nomic-ai/CodeRankLLM"}
    engine = Engine.open(settings.bundle.root, ServingSettings())
    plain = engine.search(SearchRequest(query="price"))
    engine.close()
    assert found.results == plain.results
    assert "the language model did not rerank: what it said is no JSON" in " ".join(found.limits)
