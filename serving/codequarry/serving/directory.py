"""The chunk directory: which chunks there are and which file each lies in, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from codequarry.serving.globs import compile_glob


@dataclass(frozen=True)
class ChunkDirectory:
    """Ids and files of a version's chunks."""

    chunk_ids: np.ndarray
    """(n,) int64, sorted ascending."""
    file_of: np.ndarray
    """(n,) int32: row of each chunk's file in the three columns below."""
    repos: tuple[str, ...]
    paths: tuple[str, ...]
    langs: tuple[str, ...]
    """Language of each file; "" when no rule knows it."""

    @cached_property
    def repo_names(self) -> tuple[str, ...]:
        """The repositories, sorted."""
        return tuple(sorted(set(self.repos)))

    @cached_property
    def _repo_column(self) -> np.ndarray:
        return np.array(self.repos, dtype=object)

    @cached_property
    def _lang_column(self) -> np.ndarray:
        return np.array(self.langs, dtype=object)

    def files_in(self, repos: list[str]) -> np.ndarray:
        """(files,) bool: the file belongs to one of these repositories."""
        return np.isin(self._repo_column, repos)

    def files_of(self, langs: list[str]) -> np.ndarray:
        """(files,) bool: the file is in one of these languages."""
        return np.isin(self._lang_column, langs)

    def files_matching(self, glob: str) -> np.ndarray:
        """(files,) bool: path or ``repository/path`` matches the glob. Agents repeat their filters, so masks are kept.

        Raises InvalidArgumentError: the glob is not allowed.
        """
        return self._masks(glob)

    @cached_property
    def _masks(self):
        # Not through `self`: a cycle would keep a closed version's arrays until the garbage collector comes by.
        repos, paths = self.repos, self.paths

        @lru_cache(maxsize=128)
        def mask(glob: str) -> np.ndarray:
            matches = compile_glob(glob)
            found = (matches(path) or matches(f"{repo}/{path}") for repo, path in zip(repos, paths, strict=True))
            return np.fromiter(found, np.bool_, len(paths))

        return mask
