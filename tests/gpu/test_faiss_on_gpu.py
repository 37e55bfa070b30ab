"""FAISS on a real GPU: every rung of its ladder is held, trained and filled there, and finds what the CPU finds."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import faiss
import numpy as np
import pytest

from codequarry.pipelines.indexes.faiss import faiss_factory, write_faiss
from codequarry.schemas.settings.indexes import IndexesSettings
from codequarry.serving.channels.gpu import GpuCopy, copy_to_gpu, gpu_problem
from tests.serving.bundles.bundle_factory import mapped_index

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(gpu_problem()), reason=gpu_problem())]
DIM, COUNT = 256, 200_000


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    """Unit vectors around 2,000 centres, (n, d) float32."""
    dice = np.random.default_rng(1)
    centres = dice.standard_normal((2_000, DIM), np.float32)
    rows = centres[dice.integers(0, len(centres), COUNT)] + 0.5 * dice.standard_normal((COUNT, DIM), np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("count", [COUNT, 2_000_000, 10_000_000, 30_000_000])
def test_a_gpu_holds_every_rung_of_its_ladder(count: int) -> None:
    factory = faiss_factory(count, DIM, IndexesSettings(), gpu=True)
    copied, problem = copy_to_gpu(faiss.index_factory(DIM, factory, faiss.METRIC_INNER_PRODUCT))
    assert copied is not None, problem


def test_a_rung_is_built_there_and_found_in_here(
    tmp_path: Path, vectors: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    factory = faiss_factory(COUNT, DIM, IndexesSettings(), gpu=True)
    seconds: dict[str, float] = {}
    for name in ("gpu", "cpu"):
        started = time.perf_counter()
        use = write_faiss(tmp_path / name, np.arange(COUNT), vectors, factory, gpu=name == "gpu")
        seconds[name] = time.perf_counter() - started
        assert (use.device, use.fell_back) == ("cuda:0" if name == "gpu" else "cpu", False)
    with capsys.disabled():
        figures = f"{seconds['gpu']:.1f} s on the GPU, {seconds['cpu']:.1f} s on one core"
        sys.stdout.write(f"\n{factory} of {COUNT:,} vectors: {figures}\n")
    queries = vectors[:200]
    exact = np.argsort(-(queries @ vectors.T), axis=1)[:, :10]
    for name in ("gpu", "cpu"):
        index = faiss.read_index(str(tmp_path / name))
        faiss.extract_index_ivf(index).nprobe = 64
        rows = index.search(queries, 10)[1]
        recall = np.mean([len(set(own) & set(best)) / 10 for own, best in zip(rows, exact, strict=True)])
        assert recall > 0.9, name


def test_a_copy_answers_as_the_index_does(vectors: np.ndarray) -> None:
    rows = vectors[:5_000]
    index = mapped_index(np.arange(len(rows)), rows, "Flat")
    copied = GpuCopy.of([faiss.downcast_index(index.index)])
    assert copied is not None
    places, scores = copied.search(rows[7], 5)
    assert places[0] == 7
    assert scores[0] == pytest.approx(1.0, abs=1e-3)
