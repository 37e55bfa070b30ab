"""FAISS on a GPU: detection, conversion of indexes, and a copy of the dense index for queries over all rows.

The installed package and the machine are asked, nothing is assumed. The base install has FAISS for the CPU. With one
for the GPU (``faiss-gpu`` of the extra ``gpu``, or ``faiss-gpu-cuvs``) the same calls train, fill and search there. Its
cloner uses cuVS by itself if it was built with it.
"""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportAttributeAccessIssue=false, reportUnknownParameterType=false
# The stubs are those of FAISS for the CPU.

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from codequarry.serving.channels.faiss_search import found_rows

if TYPE_CHECKING:
    import faiss

DISABLED = "FAISS GPU disabled - using CPU"
"""Note of answers when a GPU is requested and there is none."""


def gpu_problem() -> str:
    """Return why FAISS cannot use a GPU here; empty when it can."""
    import faiss

    if not (hasattr(faiss, "StandardGpuResources") and hasattr(faiss, "index_cpu_to_gpu")):
        return "the installed FAISS is the one for the CPU, see the extra gpu"
    return "" if faiss.get_num_gpus() > 0 else "FAISS sees no GPU: there is none, or its driver is missing or too old"


def has_gpu() -> bool:
    """Tell whether the installed FAISS supports GPUs and sees one."""
    return not gpu_problem()


def copy_to_gpu(index: faiss.Index) -> tuple[faiss.Index | None, str]:
    """Copy an index to the first GPU.

    Args:
        index: Index of the CPU.

    Returns:
        The copy and "", or None and the reason for having none.
    """
    import faiss

    if problem := gpu_problem():
        return None, problem
    resources = faiss.StandardGpuResources()
    try:
        copied = faiss.index_cpu_to_gpu(resources, 0, index)
    except RuntimeError as error:
        return None, f"the GPU cannot hold this kind of index, or not one of this size ({last_line(error)})"
    copied.referenced_objects = [resources]  # they have to live as long as it does
    return copied, ""


def last_line(error: RuntimeError) -> str:
    """Return the end of a message of FAISS, which begins with its source code."""
    return (str(error).strip() or "no message").splitlines()[-1][:200]


def on_cpu(index: faiss.Index) -> faiss.Index:
    """Convert an index of `copy_to_gpu` to one of the CPU, which can be written to a file."""
    import faiss

    return faiss.index_gpu_to_cpu(index)


class GpuCopy:
    """Copy of an index on a GPU, for queries over all rows; the mapped index serves all other queries.

    Searches one query at a time: FAISS's GPU resources belong to one thread.
    """

    def __init__(self, copied: faiss.Index) -> None:
        self._index = copied
        self._lock = threading.Lock()

    @classmethod
    def of(cls, shards: Sequence[faiss.Index]) -> GpuCopy | None:
        """Copy an index of one file to the GPU; None when there is no GPU that can hold it."""
        copied = copy_to_gpu(shards[0])[0] if len(shards) == 1 else None
        return None if copied is None else cls(copied)

    def search(self, vector: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the nearest vectors.

        Args:
            vector: (d,) float32.
            limit: Most rows to return.

        Returns:
            Rows (m,) int64 and scores (m,) float32.
        """
        with self._lock:
            return found_rows(*self._index.search(vector[None, :], limit))
