"""The GPU is asked for and never assumed: with FAISS for the CPU everything runs there and says so.

The other half runs over a stand-in whose "GPU" is a clone on the CPU: it shows that what is trained and filled there is
what is written and searched, not that a GPU computes it.
"""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
import pytest

from codequarry.pipelines.indexes import faiss as faiss_index
from codequarry.pipelines.indexes.faiss import builds_on_gpu, faiss_factory, write_faiss
from codequarry.schemas.settings.indexes import IndexesSettings
from codequarry.serving.channels.dense import FaissChannel
from codequarry.serving.channels.gpu import DISABLED, gpu_problem, has_gpu
from tests.serving.bundles.bundle_factory import mapped_index
from tests.serving.channels.ask_channel import ask_channel
from tests.serving.channels.test_dense import IDS, VECTORS, Rows, exact, ready


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """FAISS as if it had a GPU; what was asked of it."""
    calls: list[str] = []
    held: list[faiss.Index] = []

    def cloned(name: str, index: faiss.Index) -> faiss.Index:
        calls.append(f"{name} {type(index).__name__} of {index.ntotal}")
        ivf = faiss.try_extract_index_ivf(index)
        coarse = index if ivf is None else faiss.downcast_index(ivf.quantizer)
        if isinstance(coarse, faiss.IndexHNSW):
            raise RuntimeError("This index type is not implemented on GPU.")
        held.append(faiss.clone_index(index))
        return faiss.downcast_index(held[-1])

    monkeypatch.setattr(faiss, "StandardGpuResources", object, raising=False)
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1, raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_gpu", lambda _, __, index: cloned("up", index), raising=False)
    monkeypatch.setattr(faiss, "index_gpu_to_cpu", lambda index: cloned("down", index), raising=False)
    return calls


def test_without_a_gpu_the_same_bytes_are_written(tmp_path: Path) -> None:
    assert not has_gpu()
    uses = [write_faiss(tmp_path / name, IDS, VECTORS, "IVF16,SQ8", gpu=name == "gpu") for name in ("cpu", "gpu")]
    assert (tmp_path / "cpu").read_bytes() == (tmp_path / "gpu").read_bytes()
    assert [use.fell_back for use in uses] == [False, True]
    assert (uses[0].device, uses[1].reason) == ("cpu", gpu_problem())


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of threads that FAISS was given, on a machine of three cores."""
    numbers: list[int] = []
    put = faiss.omp_set_num_threads
    monkeypatch.setattr(faiss_index, "available_cores", lambda: 3)
    monkeypatch.setattr(faiss, "omp_set_num_threads", lambda number: (numbers.append(number), put(number)))
    return numbers


@pytest.mark.parametrize("factory", ["IVF16,SQ8", "IVF16_HNSW32,SQ8", "HNSW32,SQ8"])
def test_a_fall_back_takes_all_cores_and_says_so(tmp_path: Path, threads: list[int], factory: str) -> None:
    use = write_faiss(tmp_path / "index", IDS, VECTORS, factory, gpu=True)
    assert (use.device, threads[:2]) == ("cpu (3 threads)", [1, 3])
    assert use.sentence() == (
        f"building {factory} of 2,000 vectors ran on cpu (3 threads), though the settings ask for a GPU: {use.reason}"
    )
    assert "see the extra gpu" in use.reason


def test_without_the_wish_for_a_gpu_one_thread_builds(tmp_path: Path, threads: list[int]) -> None:
    use = write_faiss(tmp_path / "index", IDS, VECTORS, "IVF16,SQ8")
    assert (use.asked, use.fell_back, threads[:-1]) == (False, False, [1])


@pytest.mark.parametrize(("visible", "reason"), [(1, ""), (0, "FAISS sees no GPU")])
def test_the_ladder_of_a_gpu_needs_one_that_is_seen(
    stand_in: list[str], monkeypatch: pytest.MonkeyPatch, visible: int, reason: str
) -> None:
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: visible)
    assert gpu_problem().startswith(reason)
    assert builds_on_gpu(IndexesSettings(faiss_gpu=True)) == (visible > 0)
    assert not builds_on_gpu(IndexesSettings())


@pytest.mark.parametrize("count", [200_000, 1_999_999, 2_000_000, 10_000_000, 30_000_000])
def test_every_rung_of_a_gpu_is_one_that_it_can_hold(count: int) -> None:
    factory = faiss_factory(count, 256, IndexesSettings(), gpu=True)
    index = faiss.index_factory(256, factory, faiss.METRIC_INNER_PRODUCT)
    ivf = faiss.try_extract_index_ivf(index)
    assert isinstance(index, faiss.IndexIVFScalarQuantizer)
    assert isinstance(faiss.downcast_index(ivf.quantizer), faiss.IndexFlat)


def test_a_rung_of_the_cpu_is_said_to_be_none_of_a_gpu(tmp_path: Path, stand_in: list[str]) -> None:
    use = write_faiss(tmp_path / "index", IDS, VECTORS, "IVF16_HNSW32,SQ8", gpu=True)
    assert stand_in == ["up IndexIVFScalarQuantizer of 0"]
    assert use.fell_back and "cannot hold this kind of index" in use.reason


def test_a_gpu_that_gives_up_leaves_the_work_to_the_cpu(
    tmp_path: Path, stand_in: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        raise RuntimeError("Error in allocMemory:\ncudaMalloc error out of memory")

    monkeypatch.setattr(faiss, "index_gpu_to_cpu", full)
    use = write_faiss(tmp_path / "gpu", IDS, VECTORS, "IVF16,SQ8", gpu=True)
    write_faiss(tmp_path / "cpu", IDS, VECTORS, "IVF16,SQ8")
    assert use.reason == "the GPU gave up (cudaMalloc error out of memory)"
    assert (tmp_path / "cpu").read_bytes() == (tmp_path / "gpu").read_bytes()


def test_what_is_trained_and_filled_there_is_written_here(tmp_path: Path, stand_in: list[str]) -> None:
    use = write_faiss(tmp_path / "gpu", IDS, VECTORS, "IVF16,SQ8", gpu=True)
    assert (use.device, use.fell_back) == ("cuda:0", False)
    assert stand_in == ["up IndexIVFScalarQuantizer of 0", f"down IndexIVFScalarQuantizer of {len(IDS)}"]
    write_faiss(tmp_path / "cpu", IDS, VECTORS, "IVF16,SQ8")
    assert (tmp_path / "cpu").read_bytes() == (tmp_path / "gpu").read_bytes()


@pytest.mark.parametrize("factory", ["Flat", "HNSW32,SQ8"])
def test_a_kind_that_needs_no_training_or_no_gpu_has_is_built_here(
    tmp_path: Path, stand_in: list[str], factory: str
) -> None:
    use = write_faiss(tmp_path / "index", IDS, VECTORS, factory, gpu=True)
    assert stand_in == []
    assert use.fell_back == (factory != "Flat")


@pytest.mark.parametrize(("factory", "copied"), [("Flat", True), ("IVF16,SQ8", True), ("HNSW32,SQ8", False)])
def test_searches_over_all_rows_go_to_the_copy_and_others_do_not(
    stand_in: list[str], factory: str, copied: bool
) -> None:
    channel = FaissChannel([mapped_index(IDS, VECTORS, factory)], ready(Rows()), source="x", vectors=VECTORS, gpu=True)
    assert len(stand_in) == 1
    found = ask_channel(channel, "3", 10)
    assert found.notes == (() if copied else (DISABLED,))
    if factory == "Flat":
        assert found.chunk_ids.tolist() == exact(3, np.arange(len(IDS)), 10)[0]
    rows = np.arange(0, len(IDS), 2)
    assert np.isin(ask_channel(channel, "3", 10, allowed=IDS[rows]).chunk_ids, IDS[rows]).all()
    channel.close()


def test_answers_say_that_there_is_no_gpu() -> None:
    channel = FaissChannel([mapped_index(IDS, VECTORS, "Flat")], ready(Rows()), source="x", gpu=True)
    assert ask_channel(channel, "3", 5).notes == ("FAISS GPU disabled - using CPU",)
