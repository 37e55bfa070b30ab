"""Reader of arrays in ``.npy`` files and of indexes that consist of them; no other module reads them.

NumPy reads a header as Python, by `ast.literal_eval`. Up to CPython 3.12 all threads share its count of nested nodes
(gh-106905), so one thread may fail with SystemError while another one reads a header. NumPy also accepts any header.
Here a header must be exactly what NumPy writes for numbers, of bounded length, and the file must have the length that
the header gives.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from codequarry.schemas.bundle.index_spec import REMEDY, IndexSpec
from codequarry.schemas.errors import IntegrityError

_MAGIC = b"\x93NUMPY\x01\x00"
"""Format 1.0: what NumPy writes unless a header takes 64 KiB."""
_LONGEST_HEADER = 4096
_NUMBER = r"'(?:[|][biu]1|<[iu][248]|<f[248])'"
_FIELD = rf"\('[A-Za-z_][A-Za-z0-9_]{{0,63}}', {_NUMBER}\)"
_COUNT = r"(?:0|[1-9][0-9]{0,17})"
_HEADER = re.compile(
    rf"\{{'descr': (?P<descr>{_NUMBER}|\[{_FIELD}(?:, {_FIELD}){{0,63}}\]), "
    rf"'fortran_order': (?P<fortran>False|True), "
    rf"'shape': \((?P<shape>{_COUNT},|{_COUNT}(?:, {_COUNT}){{1,7}})\), \}} *\n"
)
NUMBERS = (np.dtype(np.uint16), np.dtype(np.int32))
"""Types of numbers of chunks, definitions and strings: the smaller one where all numbers of an array fit."""
PLACES = (np.dtype(np.int32), np.dtype(np.int64))
"""The same for positions in bytes, and in arrays of such numbers."""
_QUOTED = re.compile(r"'([^']*)'")
_REMEDY = "do not use this file; build what it is part of again"


@dataclass(frozen=True, slots=True)
class ArrayHeader:
    """Header of a ``.npy`` file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    offset: int
    """Position of the first number, in bytes."""

    @property
    def size_bytes(self) -> int:
        """Size of the whole file."""
        return self.offset + prod(self.shape) * self.dtype.itemsize


def read_array(path: Path) -> np.ndarray:
    """Read the array of a file into memory, writable.

    Args:
        path: ``.npy`` file.

    Returns:
        The array.

    Raises:
        IntegrityError: The file is not an array of numbers, is truncated, or is longer than its header says.
        OSError: The file cannot be read.
    """
    with path.open("rb") as stream:
        header = _read_header(stream, path)
        flat = np.fromfile(stream, header.dtype, prod(header.shape))
    if len(flat) != prod(header.shape):
        raise _damaged(path, "it was cut while it was read")
    return flat.reshape(header.shape, order=header.order)


def map_array(path: Path) -> np.ndarray:
    """Map the array of a file, read-only; raises as `read_array`.

    The result is a plain ndarray, because NumPy's memmap class is slow for single values.
    """
    with path.open("rb") as stream:
        header = _read_header(stream, path)
        if not prod(header.shape):
            return np.empty(header.shape, header.dtype, header.order)
        try:
            mapped = np.memmap(stream, header.dtype, "r", header.offset, header.shape, header.order)
        except ValueError as error:  # shorter than a moment ago
            raise _damaged(path, "it was cut while it was read") from error
    return mapped.view(np.ndarray)


def _read_header(stream: BinaryIO, path: Path) -> ArrayHeader:
    """Read the header of an open file, up to the first number."""
    start = stream.read(len(_MAGIC) + 2)
    if len(start) < len(_MAGIC) + 2 or not start.startswith(_MAGIC):
        raise _damaged(path, "it does not begin as one")
    length = int.from_bytes(start[-2:], "little")
    if length > _LONGEST_HEADER:
        raise _damaged(path, f"its header takes {length} bytes, expected at most {_LONGEST_HEADER}")
    header = _parsed(stream.read(length), len(start) + length)
    if header is None:
        raise _damaged(path, "its header is none of an array of numbers")
    size = os.fstat(stream.fileno()).st_size
    if size != header.size_bytes:
        raise _damaged(path, f"it holds {size} bytes, expected {header.size_bytes} for {header.shape} {header.dtype}")
    return header


def _parsed(text: bytes, offset: int) -> ArrayHeader | None:
    """Parse a header; None for anything that NumPy would not write."""
    match = _HEADER.fullmatch(text.decode("latin-1"))
    if match is None:
        return None
    pieces = _QUOTED.findall(match["descr"])
    if match["descr"].startswith("["):
        names, kinds = pieces[::2], pieces[1::2]
        if len(set(names)) != len(names):
            return None
        dtype = np.dtype(list(zip(names, kinds, strict=True)))
    else:
        dtype = np.dtype(pieces[0])
    shape = tuple(int(count) for count in match["shape"].split(",") if count)
    return ArrayHeader(dtype, shape, "F" if match["fortran"] == "True" else "C", offset)


def _damaged(path: Path, reason: str) -> IntegrityError:
    return IntegrityError(f"{path}: not an array file: {reason}", suggestion=_REMEDY)


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


def narrow(numbers: np.ndarray, kinds: Sequence[np.dtype[Any]]) -> np.ndarray:
    """Convert numbers from 0 on to the first of some types that holds all of them, and the one after the largest.

    Args:
        numbers: Integers of any shape.
        kinds: Types of integers, the smallest first; the last one must hold them.

    Returns:
        The numbers in that type.
    """
    largest = int(numbers.max()) if numbers.size else 0
    kind = next((kind for kind in kinds[:-1] if largest < np.iinfo(kind).max), kinds[-1])
    return np.ascontiguousarray(numbers, kind)


def check_offsets(path: Path, offsets: np.ndarray, total: int) -> None:
    """Raise IntegrityError when offsets, (n + 1,), do not ascend from 0 to a total."""
    if offsets[0] != 0 or offsets[-1] != total or (np.diff(offsets) < 0).any():
        raise IntegrityError(f"{path}: not ascending from 0 to {total}", suggestion=REMEDY)
