"""Open late-interaction index: mapped files and the scales of the token encoder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from codequarry.schemas.bundle.warp import WarpSpec
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.channels.warp.mapped_files import map_arrays


@dataclass(frozen=True, slots=True)
class WarpIndex:
    """Files of an index; see `codequarry.schemas.bundle.warp`."""

    spec: WarpSpec
    scales: NDArray[np.float32]
    """(d,) of the token encoder."""
    chunk_ids: np.ndarray
    doc_offsets: np.ndarray
    centroids: np.ndarray
    offsets: np.ndarray
    pids: np.ndarray
    levels: np.ndarray
    residuals: np.ndarray | None = None
    doc_codes: np.ndarray | None = None
    doc_residuals: np.ndarray | None = None
    doc_centroids: np.ndarray | None = None

    @classmethod
    def open(cls, folder: Path, scales: NDArray[np.float32]) -> Self:
        """Map an index.

        Args:
            folder: Folder of the index.
            scales: (d,) float32: scales of the token encoder.

        Returns:
            The mapped index.

        Raises:
            IntegrityError: The index is incomplete, or the scales have another dimension.
        """
        spec = WarpSpec.load(folder)
        if scales.shape != (spec.dim,):
            raise IntegrityError(
                f"the index has {spec.dim} dimensions, its encoder {len(scales)}", suggestion="build the bundle again"
            )
        return cls(spec, np.ascontiguousarray(scales, np.float32), **map_arrays(folder, spec))

    def rows_of(self, chunk_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the documents of chunks, -1 for a chunk that is not in the index: (m,) int64."""
        if not len(self.chunk_ids):
            return np.full(len(chunk_ids), -1, np.int64)
        places = np.minimum(np.searchsorted(self.chunk_ids, chunk_ids), len(self.chunk_ids) - 1)
        return np.where(self.chunk_ids[places] == chunk_ids, places, -1)
