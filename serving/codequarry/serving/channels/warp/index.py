"""Open late-interaction index: mapped files, the packing of residuals, and the scales of the token encoder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from codequarry.schemas.bundle.index_spec import REMEDY
from codequarry.schemas.bundle.warp import WarpSpec
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.files.arrays import check_offsets, map_files


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


def map_arrays(folder: Path, spec: WarpSpec) -> dict[str, np.ndarray]:
    """Map every file of an index, read-only; only headers and the two arrays of offsets are read.

    Other contents (documents of postings, clusters of tokens) are checked by the reader as it uses them.

    Args:
        folder: Folder of the index.
        spec: Description of the index.

    Returns:
        Arrays by name.

    Raises:
        IntegrityError: A file is missing or truncated, or its shape, type or offsets do not match the spec.
    """
    arrays = map_files(folder, spec)
    for name, total in (("doc_offsets", spec.tokens), ("offsets", spec.postings)):
        check_offsets(folder / f"{name}.npy", arrays[name], total)
    if spec.documents and (np.diff(arrays["doc_offsets"]).min() < 1 or (np.diff(arrays["chunk_ids"]) <= 0).any()):
        raise IntegrityError(
            f"{folder}: a document has no token, or ids are not ascending; expected neither", suggestion=REMEDY
        )
    if not np.isfinite(arrays["levels"]).all():
        raise IntegrityError(f"{folder}/levels.npy: not finite", suggestion=REMEDY)
    return arrays


def pack(levels: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Pack rows of levels into bits.

    >>> pack(np.array([[1, 2, 3, 15]], np.uint8), 4).tolist()
    [[49, 242]]

    Args:
        levels: (n, d) uint8 below 2^bits; d * bits is a multiple of 8.
        bits: Bits for each level.

    Returns:
        (n, d * bits / 8) uint8.
    """
    width = levels.shape[1] * bits // 8
    packed = np.zeros((len(levels), width), np.uint8)
    for part in range(8 // bits):
        packed |= levels[:, part * width : (part + 1) * width] << np.uint8(part * bits)
    return packed


def unpack(packed: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Unpack rows; the inverse of `pack`.

    >>> unpack(np.array([[49, 242]], np.uint8), 4).tolist()
    [[1, 2, 3, 15]]
    """
    mask = np.uint8((1 << bits) - 1)
    return np.concatenate([(packed >> np.uint8(part * bits)) & mask for part in range(8 // bits)], axis=1)
