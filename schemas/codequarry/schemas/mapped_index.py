"""What the indexes of our own have in common on disk: ``index.json`` with their sizes, and arrays that are mapped."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Self

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from codequarry.schemas.errors import IntegrityError

SPEC_FILE = "index.json"
ENCODER_FOLDER = "encoder"
"""The encoder of queries, beside the arrays."""
REMEDY = "do not serve this index; build the bundle again"


class IndexSpec(BaseModel):
    """``index.json``: sizes of an index and what made it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @abstractmethod
    def arrays(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Shape and dtype of every file, by the name without ``.npy``."""

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read ``index.json``. Raises IntegrityError: it is missing or malformed."""
        path = folder / SPEC_FILE
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise IntegrityError(f"{path}: cannot be read ({error.strerror})", suggestion=REMEDY) from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the document"
            raise IntegrityError(f"{path}: {where}: {first['msg']}", suggestion=REMEDY) from error

    def save(self, folder: Path) -> None:
        """Write ``index.json``, the last file of an index."""
        (folder / SPEC_FILE).write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")


def map_files(folder: Path, spec: IndexSpec) -> dict[str, np.ndarray]:
    """Map every file of an index, read-only; nothing but headers is read.

    Raises IntegrityError: a file is missing or cut, or its shape or type are not those of the spec.
    """
    arrays: dict[str, np.ndarray] = {}
    for name, (shape, dtype) in spec.arrays().items():
        path = folder / f"{name}.npy"
        try:
            found = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))  # a plain array over the map
        except (OSError, ValueError, EOFError) as error:
            raise IntegrityError(f"{path}: cannot be mapped ({error})", suggestion=REMEDY) from error
        if found.shape != shape or found.dtype != dtype or not found.flags.c_contiguous:
            raise IntegrityError(
                f"{path}: {found.shape} {found.dtype}, expected {shape} {dtype} in C order", suggestion=REMEDY
            )
        arrays[name] = found
    return arrays


def check_offsets(path: Path, offsets: np.ndarray, total: int) -> None:
    """Raises IntegrityError: offsets, (n + 1,), do not ascend from 0 to a total."""
    if offsets[0] != 0 or offsets[-1] != total or (np.diff(offsets) < 0).any():
        raise IntegrityError(f"{path}: not ascending from 0 to {total}", suggestion=REMEDY)
