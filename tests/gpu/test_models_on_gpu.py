"""Models on real GPUs: torch and ONNX Runtime in half precision, on one device and on all."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from codequarry.pipelines.embed.devices import device_names, visible_gpus
from codequarry.pipelines.embed.export.minilm import export_minilm
from codequarry.pipelines.embed.export.minilm_tokens import export_minilm_tokens
from codequarry.pipelines.embed.half import DOCUMENTS, HalfDocuments, HalfTokens
from codequarry.schemas.settings.embedding import EmbeddingSettings
from codequarry.serving.encoders.onnx import MODEL_FILE, open_session
from codequarry.serving.encoders.spec import EncoderSpec
from codequarry.serving.encoders.tokens import SCALES_FILE, TokenEncoder
from tests.models.conftest import minilm_source, tiny_bert

__all__ = ["minilm_source", "tiny_bert"]  # fixtures
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]
TEXTS = [f"def load_{number}(path):\n    return read(path, {number})" for number in range(300)]


def torch_problem() -> str:
    """Return why torch cannot use a GPU here; empty when it can."""
    if find_spec("torch") is None or find_spec("sentence_transformers") is None:
        return "torch or sentence-transformers is not installed, see the extra transformers"
    import torch

    return "" if torch.cuda.is_available() else "torch sees no GPU: there is none, or its driver is missing or too old"


def runtime_problem() -> str:
    """Return why ONNX Runtime cannot use a GPU here; empty when it may."""
    if find_spec("onnxruntime") is None:
        return "onnxruntime is not installed"
    import onnxruntime

    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return "the installed ONNX Runtime is the one for the CPU, see the extra gpu"
    return "" if visible_gpus() else "no GPU: there is none, or its driver is missing"


def several_problem() -> str:
    """Return why ONNX Runtime cannot use several GPUs here; empty when it may."""
    return runtime_problem() or ("" if visible_gpus() > 1 else "one GPU alone, this needs two")


@pytest.mark.skipif(bool(torch_problem()), reason=torch_problem())
def test_half_precision_agrees_with_the_cpu(tiny_bert: Path) -> None:
    from codequarry.pipelines.embed.torch import TorchEncoder, gpu_memory_mb, load_model

    import torch  # isort: skip

    settings = EmbeddingSettings(model=str(tiny_bert), max_tokens=64)
    there, here = (TorchEncoder(load_model(settings, device=device)) for device in ("cuda", "cpu"))
    assert there.device == "cuda:0"
    cosines = np.sum(there.encode(TEXTS) * here.encode(TEXTS), axis=1)
    assert cosines.min() > 0.99
    assert (gpu_memory_mb(torch) or 0) > 0


@pytest.mark.skipif(bool(runtime_problem()), reason=runtime_problem())
def test_token_codes_agree_with_the_cpu(token_directory: Path) -> None:
    there, here = (TokenEncoder.open(token_directory, device=device) for device in ("cuda", "cpu"))
    for own, best in zip(there.encode_documents(TEXTS[:20]), here.encode_documents(TEXTS[:20]), strict=True):
        assert np.abs(own.astype(int) - best.astype(int)).mean() < 2


@pytest.fixture(scope="module")
def half_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("half") / "minilm"
    export_minilm(folder, half=True)
    return folder


def half_vectors(folder: Path, device: str, texts: list[str]) -> tuple[NDArray[np.float32], str]:
    """Return vectors (n, 384) of a float16 graph, and the names of its devices."""
    encoder = HalfDocuments.open(folder, EncoderSpec.load(folder), device)
    return encoder.encode_documents(texts), encoder.device


@pytest.mark.skipif(bool(runtime_problem()), reason=runtime_problem())
def test_float16_vectors_agree_with_the_cpu(half_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there, device = half_vectors(half_folder, "cuda:0", TEXTS)
    here, _ = half_vectors(half_folder, "cpu", TEXTS[:40])
    assert device == "cuda:0"
    assert np.sum(there[:40] * here, axis=1).min() > 0.999
    many = [f"{text}\n# {number}" for number in range(40) for text in TEXTS]
    encoder = HalfDocuments.open(half_folder, EncoderSpec.load(half_folder), "cuda:0")
    encoder.encode_documents(many[:1_000])
    started = time.perf_counter()
    encoder.encode_documents(many)
    with capsys.disabled():
        rate = len(many) / (time.perf_counter() - started)
        sys.stdout.write(f"\nMiniLM in float16: {rate:,.0f} texts a second on one GPU\n")


@pytest.mark.skipif(bool(runtime_problem()), reason=runtime_problem())
def test_the_float16_graph_runs_on_the_gpu_alone(half_folder: Path, tmp_path: Path) -> None:
    """A matrix product, attention or normalization without a kernel for GPUs would run on the CPU, and say nothing."""
    import json

    import onnxruntime

    onnxruntime.preload_dlls()
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    session = onnxruntime.InferenceSession(
        str(half_folder / DOCUMENTS / MODEL_FILE), options, providers=["CUDAExecutionProvider", "CPUExecutionProvider"]
    )
    session.run(None, {"input_ids": np.ones((4, 16), np.int64)})
    events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    ran = [event["args"] for event in events if event.get("args", {}).get("provider")]
    here = {each["op_name"] for each in ran if each["provider"] == "CPUExecutionProvider"}
    assert here <= {"Shape", "Slice", "Cast", "Greater"}, here


@pytest.mark.skipif(bool(runtime_problem()), reason=runtime_problem())
def test_float16_codes_of_tokens_agree_with_the_cpu(tmp_path: Path) -> None:
    export_minilm_tokens(tmp_path, half=True)
    there, here = (HalfTokens.open(tmp_path, device).encode_documents(TEXTS[:20]) for device in ("cuda", "cpu"))
    steps = np.load(tmp_path / SCALES_FILE)
    for own, best in zip(there, here, strict=True):
        assert own.shape == best.shape
        assert np.abs((own.astype(int) - best.astype(int)) * steps).mean() < 0.01


@pytest.mark.skipif(bool(several_problem()), reason=several_problem())
def test_all_devices_give_what_one_gives(half_folder: Path) -> None:
    one, _ = half_vectors(half_folder, "cuda:0", TEXTS)
    every, devices = half_vectors(half_folder, "cuda", TEXTS)
    assert devices == ", ".join(device_names("cuda"))
    assert np.sum(one * every, axis=1).min() > 0.9999
    last = f"cuda:{visible_gpus() - 1}"
    open_session(half_folder / DOCUMENTS / MODEL_FILE, (384,), last, texts=None)
