"""A copy of the dense index on a GPU, for queries over all rows; the mapped one stays for all others."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from codequarry.schemas.faiss_gpu import on_gpu
from codequarry.serving.faiss_search import found_rows

if TYPE_CHECKING:
    import faiss


class GpuCopy:
    """Searches one query at a time: FAISS's resources of a GPU belong to one thread."""

    def __init__(self, copied: faiss.Index) -> None:
        self._index = copied
        self._lock = threading.Lock()

    @classmethod
    def of(cls, shards: Sequence[faiss.Index]) -> GpuCopy | None:
        """The copy of an index of one file; None where there is no GPU, or none that can hold it."""
        copied = on_gpu(shards[0]) if len(shards) == 1 else None
        return None if copied is None else cls(copied)

    def search(self, vector: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows (m,) int64 and scores (m,) float32 of the nearest vectors. vector: (d,) float32."""
        with self._lock:
            return found_rows(*self._index.search(vector[None, :], limit))
