"""Relation of a delta version to its base, from ``stack/`` of its folder (`schemas.bundle.stack`)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.bundle.stack import (
    DEAD,
    HIDDEN,
    LOST,
    NAMES,
    PLACE,
    PLACES,
    SCIP_ARRAYS,
    STACK_ARRAYS,
    STRINGS,
    SUCCESSORS,
)
from codequarry.schemas.catalog.stack_views import StackNames
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.catalog.catalog import Catalog
from codequarry.serving.catalog.chunk_arrays import ChunkRows, RowIndex
from codequarry.serving.catalog.directory import ChunkDirectory
from codequarry.serving.channels.base import Hidden
from codequarry.serving.files.arrays import map_array
from codequarry.serving.files.integrity import read_manifest


class Extent(NamedTuple):
    """Numbers of files, chunks, definitions and strings of a version."""

    files: int
    chunks: int
    definitions: int
    strings: int


@dataclass(frozen=True)
class VersionArrays:
    """The arrays of a version that a stack is made of."""

    rows: RowIndex
    directory: ChunkDirectory

    @classmethod
    def of(cls, rows: ChunkRows, directory: ChunkDirectory) -> Self:
        """Return the arrays of a complete version, or of a delta version by itself."""
        assert isinstance(rows, RowIndex)
        return cls(rows, directory)

    @property
    def extent(self) -> Extent:
        """Numbers of everything."""
        return Extent(self.files, self.chunks, self.definitions, len(self.rows.texts))

    @property
    def files(self) -> int:
        """Number of files."""
        return len(self.directory.paths)

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return len(self.rows.chunks)

    @property
    def definitions(self) -> int:
        """Number of definitions."""
        return self.rows.definitions.shape[1]

    @cached_property
    def precise(self) -> bool:
        """SCIP described some of the files."""
        return bool(self.rows.chunks["scip"].any())


@dataclass(frozen=True)
class StackArrays:
    """A base, a delta version, and the arrays of ``stack/``."""

    base: VersionArrays
    own: VersionArrays
    """The delta version."""
    hidden: np.ndarray
    strings: np.ndarray
    names: np.ndarray
    dead: np.ndarray
    places: np.ndarray
    successors: np.ndarray
    lost: np.ndarray
    own_ids: np.ndarray
    """(n,) int64: chunk of each vector of the delta."""

    @classmethod
    def open(cls, folder: Path, base: VersionArrays, own: Catalog) -> Self:
        """Map ``stack/`` of a delta version.

        Args:
            folder: The folder.
            base: Arrays of the base.
            own: Catalog of the delta version by itself.

        Returns:
            The stack.

        Raises:
            IntegrityError: An array is missing or damaged, or belongs to other versions.
        """
        try:
            arrays = read_stack_arrays(folder, precise=base.precise)
        except (OSError, IntegrityError) as error:
            raise _damaged(folder, "an array cannot be read") from error
        found = cls(base, VersionArrays.of(own.index, own.directory()), **arrays, own_ids=own.id_map())
        if problems := stack_problems(arrays, base.extent, found.own.extent):
            raise _damaged(folder, problems[0])
        return found

    @classmethod
    def read(cls, paths: BundlePaths) -> Self:
        """Return the stack of a delta version that nobody has open; raises as `open` and `Catalog.open`.

        Args:
            paths: Paths of the version, beside which its base lies.

        Returns:
            The stack.
        """
        below = base_paths(paths, read_manifest(paths))
        assert below is not None
        with closing(Catalog.open(below)) as base, closing(Catalog.open(paths)) as own:
            return cls.open(paths.stack, VersionArrays.of(base.index, base.directory()), own)

    def numbers(self, base: str, own: str, schema: str, first_shard: int) -> StackNames:
        """Return what SQL has to know; see `StackNames`."""
        below = self.base
        return StackNames(base, own, schema, below.files, below.chunks, below.definitions, first_shard, below.precise)

    @cached_property
    def hidden_files(self) -> np.ndarray:
        """Mask of the base's files that count no longer: (F,) bool."""
        found = np.zeros(self.base.files, np.bool_)
        found[self.hidden] = True
        return found

    @cached_property
    def hidden_rows(self) -> np.ndarray:
        """Mask of the base's chunk rows that count no longer: (N,) bool."""
        found = np.zeros(self.base.chunks, np.bool_)
        for file in self.hidden.tolist():
            rows = self.base.directory.rows_in(file)
            found[rows.start : rows.stop] = True
        return found

    @cached_property
    def hidden_chunks(self) -> Hidden:
        """Chunks of the base that count no longer."""
        gone = np.sort(self.base.directory.by_row[self.hidden_rows])
        again = np.isin(gone, self.own.directory.chunk_ids, assume_unique=True)
        return Hidden(len(gone), gone[~again], gone[again])


def read_stack_arrays(folder: Path, *, precise: bool) -> dict[str, np.ndarray]:
    """Map the arrays of ``stack/``; raises OSError and IntegrityError as `map_array`.

    Args:
        folder: The folder.
        precise: SCIP described files of the base; there are arrays for that, which are empty otherwise.

    Returns:
        Arrays by name.
    """
    stored = (*STACK_ARRAYS, *SCIP_ARRAYS) if precise else STACK_ARRAYS
    empty = {SUCCESSORS: np.empty((0, 2), np.int32), LOST: np.empty(0, np.int32)}
    return empty | {name: map_array(folder / f"{name}.npy") for name in stored}


def stack_problems(arrays: Mapping[str, np.ndarray], base: Extent, own: Extent) -> list[str]:
    """Return what is wrong with the arrays of ``stack/``, empty when they fit both versions.

    Args:
        arrays: Arrays by name.
        base: Numbers of the base.
        own: Numbers of the delta.

    Returns:
        Sentences.
    """
    hidden, strings, names, dead, places = (arrays[name] for name in STACK_ARRAYS)
    successors, lost = (arrays[name] for name in SCIP_ARRAYS)
    wanted = {
        HIDDEN: (np.int32, hidden.shape[:1]),
        STRINGS: (np.int32, (own.strings,)),
        NAMES: (np.int32, (*names.shape[:1], 2)),
        DEAD: (np.int32, (*dead.shape[:1], 3)),
        PLACES: (PLACE, places.shape[:1]),
        SUCCESSORS: (np.int32, (*successors.shape[:1], 2)),
        LOST: (np.int32, lost.shape[:1]),
    }
    forms = [name for name, form in wanted.items() if (arrays[name].dtype, arrays[name].shape) != form]
    if forms:
        return [f"{name}.npy is not of this base and this delta" for name in forms]
    definitions = base.definitions + own.definitions
    bounds = (
        (HIDDEN, hidden, 0, base.files),
        (STRINGS, strings, -1, base.strings),
        (NAMES, names[:, 0], 0, own.definitions),
        (NAMES, names[:, 1], 0, base.definitions),
        (DEAD, dead[:, 0], 0, base.definitions),
        (DEAD, dead[:, 1:], 0, base.files),
        (SUCCESSORS, successors[:, 0], 0, own.definitions),
        (SUCCESSORS, successors[:, 1], 0, base.definitions),
        (LOST, lost, 0, base.definitions),
        (PLACES, places["target_id"], 0, definitions),
        (PLACES, places["file"], 0, base.files + own.files),
        (PLACES, places["chunk"], 0, base.chunks + own.chunks),
        (PLACES, places["enclosing"], -1, definitions),
    )
    far = dict.fromkeys(
        name for name, values, least, end in bounds if values.size and not least <= values.min() <= values.max() < end
    )
    found = [f"{name}.npy names something that is neither in the base nor in the delta" for name in far]
    ordered = {HIDDEN: hidden, SUCCESSORS: successors[:, 0], LOST: lost}
    return found + [f"{name}.npy is not in order" for name, values in ordered.items() if (np.diff(values) <= 0).any()]


def base_paths(paths: BundlePaths, manifest: Manifest) -> BundlePaths | None:
    """Return the paths of the base of a delta version; None for a complete version."""
    return None if manifest.stack is None else BundlePaths(paths.path.parent / manifest.stack.base)


def _damaged(folder: Path, problem: str) -> IntegrityError:
    return IntegrityError(
        f"{folder.name}/ of {folder.parent.name} is damaged: {problem}",
        suggestion="do not serve this version; roll back, or index again",
    )
