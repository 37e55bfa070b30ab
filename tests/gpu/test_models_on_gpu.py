"""Models on a real GPU: torch in half precision, and tokens of chunks by ONNX Runtime."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from codequarry.schemas.settings.embedding import EmbeddingSettings
from codequarry.serving.encoders.tokens import TokenEncoder
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

    there = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
    return torch_problem() if there else "the installed ONNX Runtime is the one for the CPU, see the extra gpu"


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
