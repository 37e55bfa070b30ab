"""The chunk directory: which chunks there are and which file each lies in, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from codequarry.serving.globs import compile_glob

CLASS_ORDER = ("source", "stub", "test", "example", "docs", "generated", "vendored")


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
    path_classes: tuple[str, ...]
    """source, test, docs, … of each file."""
    rows: np.ndarray
    """(n,) int64: row of each chunk in ``chunks_mat``, by file and place in it."""
    row_starts: np.ndarray
    """(files + 1,) int64: the chunks of file f are ``rows[row_starts[f]:row_starts[f + 1]]``."""
    torn: np.ndarray
    """(files,) bool: a chunk of the file starts inside a line."""

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

    @cached_property
    def reading_order(self) -> np.ndarray:
        """(files,) int64: sources first, then as `CLASS_ORDER`; by repository and path inside a class."""
        ranks = {name: rank for rank, name in enumerate(CLASS_ORDER)}
        return np.argsort([ranks.get(name, len(ranks)) for name in self.path_classes], kind="stable")

    def files_with(self, chunk_ids: np.ndarray) -> np.ndarray:
        """(files,) bool: the file has one of these chunks. chunk_ids: (m,) int64; unknown ones are passed over."""
        found = np.zeros(len(self.paths), np.bool_)
        if len(self.chunk_ids):
            places = np.minimum(np.searchsorted(self.chunk_ids, chunk_ids), len(self.chunk_ids) - 1)
            found[self.file_of[places[self.chunk_ids[places] == chunk_ids]]] = True
        return found

    def files_from(self, row: int) -> np.ndarray:
        """(files,) bool: the file has a chunk in this row of ``chunks_mat`` or a later one."""
        files = np.repeat(np.arange(len(self.paths)), np.diff(self.row_starts))
        found = np.zeros(len(self.paths), np.bool_)
        found[files[self.rows >= row]] = True
        return found

    def rows_of(self, files: np.ndarray) -> np.ndarray:
        """Rows of the chunks of some files, file by file. files: (m,) int64."""
        return np.concatenate(
            [self.rows[self.row_starts[file] : self.row_starts[file + 1]] for file in files] or [self.rows[:0]]
        )

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
        @lru_cache(maxsize=128)
        def mask(glob: str) -> np.ndarray:
            matches = compile_glob(glob)
            found = (
                matches(path) or matches(f"{repo}/{path}") for repo, path in zip(self.repos, self.paths, strict=True)
            )
            return np.fromiter(found, np.bool_, len(self.paths))

        return mask
