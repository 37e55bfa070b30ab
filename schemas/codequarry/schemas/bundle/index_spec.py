"""Sizes of an index of mapped arrays, as its ``index.json`` holds them."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Self

import numpy as np
from pydantic import ValidationError

from codequarry.schemas.errors import IntegrityError
from codequarry.schemas.strict_model import StrictModel

SPEC_FILE = "index.json"


ENCODER_FOLDER = "encoder"
"""The encoder of queries, beside the arrays."""


REMEDY = "do not serve this index; build the bundle again"


class IndexSpec(StrictModel):
    """``index.json``: sizes of an index and what made it."""

    @abstractmethod
    def arrays(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Return shape and dtype of every file, by the name without ``.npy``."""

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read ``index.json``.

        Args:
            folder: Folder of the index.

        Returns:
            Its sizes.

        Raises:
            IntegrityError: The file is missing or malformed.
        """
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
