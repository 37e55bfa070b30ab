"""What the embedding stage reports: devices, speed, memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from codequarry.pipelines.embed import stage
from codequarry.pipelines.embed.stage import embed_repository
from codequarry.pipelines.embed.torch import _require_device, gpu_memory_mb
from codequarry.pipelines.sources.snapshot import snapshot_repository
from codequarry.pipelines.sources.sources import repositories_by_name
from codequarry.pipelines.syntax.stage import chunk_repository
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.settings.embedding import EmbeddingSettings
from codequarry.schemas.settings.load import Settings
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.repositories import commit


@pytest.fixture
def chunked(tmp_path: Path, make_settings: MakeSettings):
    """``chunked(device)``: settings over a repository whose chunks are there."""
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


def test_an_encoder_on_a_gpu_is_no_fall_back(chunked, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = chunked("cuda")
    opened = stage._open_encoder

    def on_gpu(*arguments: object) -> object:
        return SimpleNamespace(encode_documents=opened(*arguments).encode_documents, device="cuda:0")

    monkeypatch.setattr(stage, "_open_encoder", on_gpu)
    (leg,) = embed_repository("shop", settings).legs
    assert (leg.use.device, leg.use.fell_back) == ("cuda:0", False)


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
