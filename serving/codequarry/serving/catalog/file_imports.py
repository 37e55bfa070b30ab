"""Imports between the files of a version, from its table of modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.serving.catalog.directory import ChunkDirectory


class FileImports:
    """Pairs of an importing file and one that it imports, by the numbers of the directory.

    Args:
        pairs: (m, 2) integers: the importing file, and the imported one.
    """

    def __init__(self, pairs: np.ndarray) -> None:
        self._pairs = pairs
        self._imported = _Neighbours(pairs[:, 0], pairs[:, 1])
        self._importing = _Neighbours(pairs[:, 1], pairs[:, 0])

    @classmethod
    def read(cls, layers: Sequence[BundlePaths], directory: ChunkDirectory) -> Self:
        """Read the imports of a version.

        Args:
            layers: The version; of a delta version its base and itself.
            directory: Files of both.

        Returns:
            The imports between files.
        """
        # It takes longer to load than most questions do.
        from codequarry.schemas.bundle.tables import read_table

        pairs: dict[int, list[int]] = {}
        for paths in layers:
            table = read_table(paths.table("modules"), ["repo", "path", "resolved"])
            for repo, path, resolved in zip(*(table[name].to_pylist() for name in table.column_names), strict=True):
                if (file := directory.find(repo, path)) is None:
                    continue  # a delta version deletes it
                found = (directory.find(repo, other) for other in resolved)
                # What a later layer says of a file takes the place of what an earlier one says.
                pairs[file] = [one for one in found if one is not None]
        flat = [(file, other) for file, others in pairs.items() for other in others]
        return cls(np.array(flat, np.int64).reshape(-1, 2))

    def within(self, visible: np.ndarray) -> FileImports:
        """Return the imports between files that the caller may see: (files,) bool."""
        return FileImports(self._pairs[visible[self._pairs].all(axis=1)])

    def imported_by(self, file: int) -> list[int]:
        """Return the files that a file imports."""
        return self._imported.of(file)

    def importing(self, file: int) -> list[int]:
        """Return the files that import a file."""
        return self._importing.of(file)


class _Neighbours:
    """Values by key, both integers, sorted by key."""

    def __init__(self, keys: np.ndarray, values: np.ndarray) -> None:
        order = np.lexsort((values, keys))
        self._keys, self._values = keys[order], values[order]

    def of(self, key: int) -> list[int]:
        low, high = np.searchsorted(self._keys, [key, key + 1])
        return self._values[low:high].tolist()
