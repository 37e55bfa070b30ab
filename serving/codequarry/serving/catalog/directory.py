"""Chunk directory: ids of all chunks and the file of each, as arrays."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from codequarry.schemas.languages import FAMILY_OF
from codequarry.serving.catalog.globs import compile_glob


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
    class_rank: np.ndarray
    """(files,) int8: priority of the file's path class when files tie; sources are 1."""
    by_row: np.ndarray
    """(n,) int64: the chunk in each row of ``chunks_mat``; those of a file are together, in the order of places."""
    first_rows: np.ndarray
    """(files,) int64: row of each file's first chunk."""
    chunk_counts: np.ndarray
    """(files,) int64: chunks of each file; 0 for a file that is not indexed."""
    torn: np.ndarray
    """(files,) bool: a chunk of the file starts inside a line."""

    @property
    def visible(self) -> np.ndarray | None:
        """Mask of the files that the caller may see, (files,) bool; None for all. `chunk_ids` has no other chunks."""
        return None

    @cached_property
    def place(self) -> np.ndarray:
        """Position of each file among all by repository and path: (files,) int64."""
        return np.arange(len(self.paths))

    @property
    def indexed(self) -> np.ndarray:
        """Mask of the files that have chunks: (files,) bool."""
        return self.chunk_counts > 0

    @cached_property
    def repo_names(self) -> tuple[str, ...]:
        """Names of the repositories, sorted."""
        return tuple(sorted({*self.repos} - {""}))

    @cached_property
    def _relations(self) -> np.ndarray:
        """Number for each pair of repository and language family, by file: (files,) int32."""
        numbers: dict[tuple[str, str], int] = {}
        pairs = ((repo, FAMILY_OF.get(lang, lang)) for repo, lang in zip(self.repos, self.langs, strict=True))
        return np.fromiter((numbers.setdefault(pair, len(numbers)) for pair in pairs), np.int32, len(self.repos))

    @cached_property
    def _repo_column(self) -> np.ndarray:
        return np.array(self.repos, dtype=object)

    @cached_property
    def _lang_column(self) -> np.ndarray:
        return np.array(self.langs, dtype=object)

    @cached_property
    def reading_order(self) -> np.ndarray:
        """Files by path class, sources first, then by repository and path: (files,) int64."""
        return np.lexsort((self.place, self.class_rank))

    def in_order(self, files: np.ndarray) -> list[int]:
        """Return the files of a mask, (files,) bool, by repository and path."""
        found = np.flatnonzero(files)
        return found[np.argsort(self.place[found], kind="stable")].tolist()

    def files_with(self, chunk_ids: np.ndarray) -> np.ndarray:
        """Select the files that have one of these chunks.

        Args:
            chunk_ids: (m,) int64; unknown ids are ignored.

        Returns:
            (files,) bool.
        """
        found = np.zeros(len(self.paths), np.bool_)
        if len(self.chunk_ids):
            places = np.minimum(np.searchsorted(self.chunk_ids, chunk_ids), len(self.chunk_ids) - 1)
            found[self.file_of[places[self.chunk_ids[places] == chunk_ids]]] = True
        return found

    def rows_of(self, files: np.ndarray) -> np.ndarray:
        """Return rows of the chunks of some files, file by file.

        Args:
            files: (m,) int64.

        Returns:
            Rows of ``chunks_mat``, int64.
        """
        counts = self.chunk_counts[files]
        before = np.cumsum(counts) - counts
        return np.repeat(self.first_rows[files] - before, counts) + np.arange(counts.sum())

    def files_of_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return the files that chunks lie in.

        Args:
            rows: (m,) rows of ``chunks_mat``.

        Returns:
            (m,) int64; -1 for a chunk that the caller may not see.
        """
        if not len(self.chunk_ids):
            return np.full(len(rows), -1, np.int64)
        wanted = self.by_row[rows]
        at = np.minimum(np.searchsorted(self.chunk_ids, wanted), len(self.chunk_ids) - 1)
        return np.where(self.chunk_ids[at] == wanted, self.file_of[at], -1)

    def rows_in(self, file: int) -> range:
        """Return the rows of a file's chunks."""
        start = int(self.first_rows[file])
        return range(start, start + int(self.chunk_counts[file]))

    def find(self, repo: str, path: str) -> int | None:
        """Return the row of a file; None when the file is unknown."""
        low, high = bisect_left(self.repos, repo), bisect_right(self.repos, repo)
        at = bisect_left(self.paths, path, low, high)
        return at if at < high and self.paths[at] == path else None

    def files_in(self, repos: list[str]) -> np.ndarray:
        """Select the files of these repositories: (files,) bool."""
        return np.isin(self._repo_column, repos)

    def files_of(self, langs: list[str]) -> np.ndarray:
        """Select the files in these languages: (files,) bool."""
        return np.isin(self._lang_column, langs)

    @cached_property
    def _by_folder(self) -> dict[tuple[str, str], list[int]]:
        """Files by repository and folder."""
        found: dict[tuple[str, str], list[int]] = {}
        for file, (repo, path) in enumerate(zip(self.repos, self.paths, strict=True)):
            found.setdefault((repo, path.rpartition("/")[0]), []).append(file)
        return found

    def files_beside(self, file: int) -> list[int]:
        """Return the files of a file's folder, itself included."""
        return self._by_folder[self.repos[file], self.paths[file].rpartition("/")[0]]

    def are_related(self, one: int, other: int) -> bool:
        """Tell whether two files share repository and language family."""
        return bool(self._relations[one] == self._relations[other])

    def related_files(self, files: np.ndarray) -> np.ndarray:
        """Select the files that share repository and language family with one of these files.

        Args:
            files: (m,) integer rows.

        Returns:
            (files,) bool.
        """
        wanted = np.zeros(int(self._relations.max(initial=-1)) + 1, np.bool_)
        wanted[self._relations[files]] = True
        return wanted[self._relations]

    def files_matching(self, glob: str) -> np.ndarray:
        """Select the files whose path or ``repository/path`` matches the glob.

        Agents repeat their filters, so masks are cached.

        Args:
            glob: Path glob, see `compile_glob`.

        Returns:
            (files,) bool.

        Raises:
            InvalidArgumentError: The glob is not allowed.
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
