"""The GPU is asked for and never assumed: with FAISS for the CPU everything runs there and says so.

The other half runs over a stand-in whose "GPU" is a clone on the CPU: it shows that what is trained and filled there is
what is written and searched, not that a GPU computes it.
"""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
import pytest

from codequarry.pipelines.indexes.faiss import write_faiss
from codequarry.serving.channels.dense import FaissChannel
from codequarry.serving.channels.gpu import DISABLED, has_gpu
from tests.serving.ask_channel import ask_channel
from tests.serving.bundle_factory import mapped_index
from tests.serving.channels.test_dense import IDS, VECTORS, Rows, exact, ready


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """FAISS as if it had a GPU; what was asked of it."""
    calls: list[str] = []
    held: list[faiss.Index] = []

    def cloned(name: str, index: faiss.Index) -> faiss.Index:
        calls.append(f"{name} {type(index).__name__} of {index.ntotal}")
        if isinstance(index, faiss.IndexHNSW):
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
    for name, gpu in (("cpu", False), ("gpu", True)):
        write_faiss(tmp_path / name, IDS, VECTORS, "IVF16,SQ8", gpu=gpu)
    assert (tmp_path / "cpu").read_bytes() == (tmp_path / "gpu").read_bytes()


def test_what_is_trained_and_filled_there_is_written_here(tmp_path: Path, stand_in: list[str]) -> None:
    write_faiss(tmp_path / "gpu", IDS, VECTORS, "IVF16,SQ8", gpu=True)
    assert stand_in == ["up IndexIVFScalarQuantizer of 0", f"down IndexIVFScalarQuantizer of {len(IDS)}"]
    write_faiss(tmp_path / "cpu", IDS, VECTORS, "IVF16,SQ8")
    assert (tmp_path / "cpu").read_bytes() == (tmp_path / "gpu").read_bytes()


@pytest.mark.parametrize("factory", ["Flat", "HNSW32,SQ8"])
def test_a_kind_that_needs_no_training_or_no_gpu_has_is_built_here(
    tmp_path: Path, stand_in: list[str], factory: str
) -> None:
    write_faiss(tmp_path / "index", IDS, VECTORS, factory, gpu=True)
    assert stand_in == []


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
