"""What the embedding stage reports: devices, speed, memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from codequarry.pipelines.embed import stage
from codequarry.pipelines.embed.stage import RepositoryEmbedding, embed_repository
from codequarry.pipelines.embed.torch import _require_device, gpu_memory_mb
from codequarry.pipelines.sources.snapshot import snapshot_repository
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.store.content import remove_store
from codequarry.pipelines.store.parts import Part, break_seal, plan_parts
from codequarry.pipelines.store.vectors import vector_file
from codequarry.pipelines.store.workspace import repository_work, silent
from codequarry.pipelines.syntax.stage import chunk_repository
from codequarry.schemas.bundle import shards
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.settings.embedding import EmbeddingSettings
from codequarry.schemas.settings.load import Settings
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.repositories import commit


@pytest.fixture
def chunked(tmp_path: Path, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch):
    """``chunked(device)``: settings over a repository whose chunks are there; 128 KB of source make a part."""
    monkeypatch.setattr(shards, "_SHARD_BYTES", 128 << 10)
    commit(tmp_path / "shop", {"cart.py": "def add(item):\n    return [item]\n"})

    def make(device: str) -> Settings:
        made = make_settings(tmp_path / "shop", embedding={"device": device})
        paths = made.paths.model_copy(update={"store": tmp_path / "store"})  # the tests share one
        settings = made.model_copy(update={"paths": paths})
        (repository,) = repositories_by_name(settings.sources.repositories).values()
        snapshot_repository(repository, settings)
        chunk_repository("shop", settings)
        return settings

    return make


@pytest.mark.parametrize("device", ["", "cpu", "cuda"])
def test_a_static_encoder_says_that_it_uses_no_gpu(chunked, device: str) -> None:
    settings = chunked(device)
    report = embed_repository("shop", settings)
    (leg,) = report.legs
    assert (leg.use.device, leg.use.asked, leg.use.fell_back) == ("cpu", device == "cuda", device == "cuda")
    assert ("a static encoder adds up rows of a table" in leg.use.reason) == (device == "cuda")
    assert report.embedded > 0 and report.texts_per_second > 0 and report.peak_memory_mb > 20
    again = embed_repository("shop", settings)
    assert (again.embedded, again.texts_per_second) == (0, 0.0)
    assert (again.legs[0].use.device, again.legs[0].use.fell_back) == ("none", False)


def test_vectors_of_a_static_encoder_are_the_same_without_the_store(
    tmp_path: Path, chunked, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_parts(tmp_path / "shop")
    settings = chunked("")
    (leg,) = embed_repository("shop", settings).legs
    made = {part.number: part.table("embeddings").read_bytes() for part in parts_of(settings)}
    assert len(made) > 1
    assert not (tmp_path / "store" / "vectors").exists()
    assert (leg.embedded, leg.embedded + leg.reused) == (
        sum(len(stage._read_texts(part).texts) for part in parts_of(settings)),
        sum(len(stage._read_texts(part).keys) for part in parts_of(settings)),
    )
    # Only what a part lacks is made, and in other slabs it is the same.
    lost = parts_of(settings)[0]
    break_seal(lost.folder, stage.embedded_seal("faiss"))
    monkeypatch.setattr(stage, "_SAVE_EVERY", 3)
    assert embed_repository("shop", settings).embedded == len(stage._read_texts(lost).texts)
    assert {part.number: part.table("embeddings").read_bytes() for part in parts_of(settings)} == made


def test_vectors_are_made_of_the_parts_that_are_complete(tmp_path: Path, chunked) -> None:
    commit_parts(tmp_path / "shop")
    settings = chunked("")
    early, *later = parts_of(settings)
    embedding = RepositoryEmbedding("shop", settings)
    embedding.embed_early([early])
    assert early.table("embeddings").exists() and not any(part.table("embeddings").exists() for part in later)
    assert embedding.early_cpu_s > 0
    (leg,) = embedding.finish(silent, whole=True).legs
    made = {part.number: part.table("embeddings").read_bytes() for part in parts_of(settings)}
    for part in parts_of(settings):
        break_seal(part.folder, stage.embedded_seal("faiss"))
    (whole,) = embed_repository("shop", settings).legs
    assert (leg.embedded, leg.reused) == (whole.embedded, whole.reused)
    assert {part.number: part.table("embeddings").read_bytes() for part in parts_of(settings)} == made


def test_only_static_encoders_work_before_the_end(tmp_path: Path, chunked, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = chunked("")
    embedding = RepositoryEmbedding("shop", settings)
    (leg,) = embedding._legs
    monkeypatch.setattr(leg, "spec", leg.spec.model_copy(update={"kind": "onnx"}))
    embedding.embed_early(parts_of(settings))
    assert not any(part.table("embeddings").exists() for part in parts_of(settings))


def test_an_encoder_on_a_gpu_is_no_fall_back(chunked, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = chunked("cuda")
    fake_gpu(monkeypatch, lambda inner, texts: inner(texts))
    (leg,) = embed_repository("shop", settings).legs
    assert (leg.use.device, leg.use.fell_back) == ("cuda:0", False)


def fake_gpu(monkeypatch: pytest.MonkeyPatch, encode: Callable[[Callable, list[str]], np.ndarray]) -> None:
    """Let the shipped encoder stand for one on a GPU; ``encode`` gets it and the texts."""
    opened = stage._open_encoder

    def on_gpu(*arguments: object) -> object:
        inner = opened(*arguments).encode_documents
        return SimpleNamespace(encode_documents=lambda texts: encode(inner, texts), device="cuda:0")

    monkeypatch.setattr(stage, "_open_encoder", on_gpu)


def commit_parts(folder: Path) -> None:
    """Commit files that make several parts, some with equal chunks."""
    body = "".join(f"    item += {number} * item\n" for number in range(300))
    files: dict[str, str | bytes] = {
        f"{kind}{number}.py": f"def {kind}_{number if kind == 'own' else ''}(item):\n{body}"
        for kind in ("own", "same")
        for number in range(20)
    }
    commit(folder, files)


def parts_of(settings: Settings) -> list[Part]:
    return plan_parts(repository_work(settings.paths.work, "shop"), settings)


def test_overlapping_leaves_the_bytes_as_they_are(
    tmp_path: Path, chunked, monkeypatch: pytest.MonkeyPatch, kept_vectors: None
) -> None:
    # The same text in every file: a later part finds the vector that is not written yet.
    commit_parts(tmp_path / "shop")
    sequential = chunked("")
    report = embed_repository("shop", sequential)
    before = {part.number: part.table("embeddings").read_bytes() for part in parts_of(sequential)}
    assert len(before) > 1
    overlapping = chunked("cuda")
    remove_store(vector_file(overlapping.paths.store, report.legs[0].fingerprint))
    for part in parts_of(overlapping):
        break_seal(part.folder, stage.embedded_seal("faiss"))
        part.table("embeddings").unlink()
    fake_gpu(monkeypatch, lambda inner, texts: inner(texts))
    again = embed_repository("shop", overlapping)
    assert {part.number: part.table("embeddings").read_bytes() for part in parts_of(overlapping)} == before
    assert (again.embedded, again.reused) == (report.embedded, report.reused)


@pytest.mark.parametrize("broken", ["_read_texts", "_write_part"])
def test_an_error_of_the_reader_or_the_writer_ends_the_stage(
    chunked, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    settings = chunked("cuda")
    fake_gpu(monkeypatch, lambda inner, texts: inner(texts))

    def fail(*_: object) -> None:
        raise UnavailableError("the disk is full", suggestion="free some")

    with monkeypatch.context() as patched:
        patched.setattr(stage, broken, fail)
        with pytest.raises(UnavailableError, match="disk is full"):
            embed_repository("shop", settings)
    assert not any(part.table("embeddings").exists() for part in parts_of(settings))
    assert embed_repository("shop", settings).chunks > 0


def test_an_error_of_the_encoder_ends_the_stage_and_keeps_what_was_finished(
    tmp_path: Path, chunked, monkeypatch: pytest.MonkeyPatch, kept_vectors: None
) -> None:
    commit_parts(tmp_path / "shop")
    settings, calls = chunked("cuda"), []

    def fail_later(inner: Callable, texts: list[str]) -> np.ndarray:
        calls.append(len(texts))
        if len(calls) == 2:
            raise UnavailableError("the GPU is gone", suggestion="look for it")
        return inner(texts)

    with monkeypatch.context() as patched:
        fake_gpu(patched, fail_later)
        with pytest.raises(UnavailableError, match="GPU is gone"):
            embed_repository("shop", settings)
    again = embed_repository("shop", settings)
    keys = {key for part in parts_of(settings) for key in stage._read_texts(part).keys}
    assert again.embedded == len(keys) - calls[0] > 0


@pytest.mark.parametrize(("device", "slabs"), [("cpu", [256, 256, 88]), ("cuda:0", [600])])
def test_a_gpu_gets_large_slabs_by_length_and_a_cpu_small_ones_in_order(
    chunked, monkeypatch: pytest.MonkeyPatch, device: str, slabs: list[int]
) -> None:
    asked: list[list[str]] = []

    def encode(texts: list[str]) -> np.ndarray:
        asked.append(texts)
        return np.array([[len(text)] for text in texts], np.float32)

    monkeypatch.setattr(stage, "_open_encoder", lambda *_: SimpleNamespace(encode_documents=encode, device=device))
    encoding = stage._Encoding(stage.encoder_directories(settings := chunked(""))["faiss"], settings)
    texts = {str(number).encode(): "x" * (number * 7 % 601) for number in range(600)}
    vectors = dict(entry for entries in encoding.of(texts) for entry in entries)
    assert {key: vector.item() for key, vector in vectors.items()} == {key: len(text) for key, text in texts.items()}
    assert [len(slab) for slab in asked] == slabs
    given = list(texts.values())
    assert [text for slab in asked for text in slab] == (
        given if device == "cpu" else sorted(given, key=len, reverse=True)
    )
    assert list(encoding.of({})) == []


def torch_with(gpus: int) -> SimpleNamespace:
    """A torch that sees some GPUs, each with 1.5 MB taken."""
    cuda = SimpleNamespace(
        is_available=lambda: gpus > 0, device_count=lambda: gpus, max_memory_allocated=lambda number: 1_500_000
    )
    mps = SimpleNamespace(is_available=lambda: False)
    return SimpleNamespace(cuda=cuda, backends=SimpleNamespace(mps=mps), __version__="2.13")


@pytest.mark.parametrize(("device", "gpus"), [("cuda", 0), ("cuda:1", 1), ("mps", 1)])
def test_a_device_that_torch_does_not_see_is_an_error(device: str, gpus: int) -> None:
    with pytest.raises(UnavailableError, match=rf"\[embedding\] device is {device}, and torch 2.13 sees no such GPU"):
        _require_device(torch_with(gpus), device, EmbeddingSettings(device=device))


@pytest.mark.parametrize(("device", "gpus"), [("cpu", 0), ("cuda", 1), ("cuda:1", 2)])
def test_a_device_that_torch_sees_is_taken(device: str, gpus: int) -> None:
    _require_device(torch_with(gpus), device, EmbeddingSettings(device=device))


def test_memory_of_gpus_is_that_of_all() -> None:
    assert [gpu_memory_mb(torch) for torch in (None, torch_with(0), torch_with(2))] == [None, None, 3.0]
