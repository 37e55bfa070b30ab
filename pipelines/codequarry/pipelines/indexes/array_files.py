"""Writing arrays whose length is known only at the end."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

_HEADER_BYTES = 128
"""Size of the header: a multiple of 64, so that the data is aligned when the file is mapped."""


class ArrayWriter:
    """A ``.npy`` file (format 1.0, C order) that grows along its first axis; a context manager."""

    def __init__(self, path: Path, dtype: np.dtype, row: tuple[int, ...] = ()) -> None:
        """Open the file.

        Args:
            path: File to write.
            dtype: Type of the entries' numbers.
            row: Shape of an entry.
        """
        self.length = 0
        self._dtype = dtype
        self._row = row
        self._stream = path.open("wb")
        self._stream.write(bytes(_HEADER_BYTES))

    def write(self, rows: np.ndarray) -> None:
        """Append entries, (m, *row) of a type that converts without loss of meaning."""
        assert rows.shape[1:] == self._row, (rows.shape, self._row)
        if rows.size:
            self._stream.write(np.ascontiguousarray(rows, self._dtype).data.cast("B"))
        self.length += len(rows)

    def close(self) -> None:
        """Write the header; the file is whole from here on."""
        shape = (self.length, *self._row)
        text = f"{{'descr': {self._dtype.str!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
        magic = b"\x93NUMPY\x01\x00" + (_HEADER_BYTES - 10).to_bytes(2, "little")
        self._stream.seek(0)
        self._stream.write(magic + text.ljust(_HEADER_BYTES - 11).encode("latin-1") + b"\n")
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._stream.close()


def write_array(path: Path, array: np.ndarray) -> None:
    """Write a whole array."""
    with ArrayWriter(path, array.dtype, array.shape[1:]) as writer:
        writer.write(array)
