"""Common on-disk form of our own indexes: ``index.json`` with their sizes, and memory-mapped arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from codequarry.schemas.bundle.index_spec import REMEDY, IndexSpec
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.files.arrays import map_array


def map_files(folder: Path, spec: IndexSpec) -> dict[str, np.ndarray]:
    """Map every file of an index, read-only; only headers are read.

    Args:
        folder: Folder of the index.
        spec: Description of the index.

    Returns:
        Arrays by name.

    Raises:
        IntegrityError: A file is missing or truncated, or its shape or type do not match the spec.
    """
    arrays: dict[str, np.ndarray] = {}
    for name, (shape, dtype) in spec.arrays().items():
        path = folder / f"{name}.npy"
        try:
            found = map_array(path)
        except OSError as error:
            raise IntegrityError(f"{path}: cannot be mapped ({error})", suggestion=REMEDY) from error
        if found.shape != shape or found.dtype != dtype or not found.flags.c_contiguous:
            raise IntegrityError(
                f"{path}: {found.shape} {found.dtype}, expected {shape} {dtype} in C order", suggestion=REMEDY
            )
        arrays[name] = found
    return arrays


def check_offsets(path: Path, offsets: np.ndarray, total: int) -> None:
    """Raise IntegrityError when offsets, (n + 1,), do not ascend from 0 to a total."""
    if offsets[0] != 0 or offsets[-1] != total or (np.diff(offsets) < 0).any():
        raise IntegrityError(f"{path}: not ascending from 0 to {total}", suggestion=REMEDY)
