"""Devices as settings name them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from codequarry.schemas.settings.embedding import EmbeddingSettings, EncoderSettings
from codequarry.schemas.settings.indexes import IndexesSettings, WarpSettings
from codequarry.schemas.settings.load import Settings

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "device", ["cuda:0,cuda:0", "cuda,cuda:1", "cpu,cuda:1", "cuda:0,", "cuda:0,mps", "cuda:٣,cuda:1"]
)
def test_devices_that_do_not_go_together_are_refused(device: str) -> None:
    with pytest.raises(ValidationError):
        EmbeddingSettings(device=device)
    with pytest.raises(ValidationError):
        WarpSettings(device=device)


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:1", "cuda:0,cuda:1", "cuda:1, cuda:0"])
def test_one_device_or_several_gpus_are_named(device: str) -> None:
    assert EmbeddingSettings(device=device).device == WarpSettings(device=device).device == device.replace(" ", "")


@pytest.mark.parametrize("device", ["", "gpu", "mps", "cuda:x"])
def test_tokens_are_encoded_on_the_cpu_or_by_cuda(device: str) -> None:
    with pytest.raises(ValidationError):
        WarpSettings(device=device)


def test_only_minilm_on_cuda_has_half_precision() -> None:
    made = [
        EncoderSettings(model="minilm", device=device).half for device in ("", "cpu", "mps", "cuda", "cuda:1,cuda:0")
    ]
    assert made == [False, False, False, True, True]
    assert not EncoderSettings(model="static", device="cuda").half
    assert not EncoderSettings(model="m", endpoint="http://127.0.0.1:1/v1", device="cuda").half


def test_half_precision_makes_another_version_and_the_choice_of_gpus_does_not() -> None:
    def hash_of(model: str, device: str, tokens_on: str = "cpu", second: dict[str, str] | None = None) -> str:
        made = EmbeddingSettings.model_validate({"model": model, "device": device, "second": second})
        indexes = IndexesSettings(tier="standard" if second else "fast")
        return Settings(embedding=made, indexes=indexes, warp=WarpSettings(enabled=True, device=tokens_on)).index_hash()

    minilm = {"model": "minilm"}
    assert hash_of("minilm", "") == hash_of("minilm", "cpu") != hash_of("minilm", "cuda")
    assert hash_of("minilm", "cuda") == hash_of("minilm", "cuda:1") == hash_of("minilm", "cuda:0,cuda:1")
    assert hash_of("static", "") == hash_of("static", "cuda")
    assert hash_of("static", "", second=minilm) != hash_of("static", "", second={**minilm, "device": "cuda"})
    assert hash_of("static", "", "cuda") == hash_of("static", "", "cuda:0,cuda:1") != hash_of("static", "")
