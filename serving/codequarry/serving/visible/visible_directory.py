"""Directory of the files that a caller may see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codequarry.serving.catalog.directory import ChunkDirectory


@dataclass(frozen=True)
class VisibleDirectory(ChunkDirectory):
    """Files by the numbers of the whole directory. A hidden file has no name and no chunk, as in a delta."""

    whole: ChunkDirectory
    seen: np.ndarray
    """(files,) bool: the visible files."""

    @property
    def visible(self) -> np.ndarray | None:
        """Mask of the files that the caller may see: (files,) bool."""
        return self.seen

    @cached_property
    def place(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Position of each file among all by repository and path: (files,) int64."""
        return self.whole.place

    def find(self, repo: str, path: str) -> int | None:
        """Return the row of a file; None when the file is unknown."""
        file = self.whole.find(repo, path)
        return file if file is not None and self.seen[file] else None


def visible_directory(whole: ChunkDirectory, sees: Callable[[str], bool]) -> VisibleDirectory:
    """Return the directory without the files of other repositories.

    Args:
        whole: Directory of the version.
        sees: Tells of a repository whether it may be seen.

    Returns:
        The directory.
    """
    names = {repo for repo in whole.repo_names if sees(repo)}
    seen = np.fromiter((repo in names for repo in whole.repos), np.bool_, len(whole.repos))
    mask = seen.tolist()
    repos, paths, langs = (
        tuple(text if shown else "" for text, shown in zip(column, mask, strict=True))
        for column in (whole.repos, whole.paths, whole.langs)
    )
    kept = seen[whole.file_of]
    return VisibleDirectory(
        whole.chunk_ids[kept],
        whole.file_of[kept],
        repos,
        paths,
        langs,
        whole.class_rank,
        by_row=whole.by_row,
        first_rows=whole.first_rows,
        chunk_counts=np.where(seen, whole.chunk_counts, 0),
        torn=whole.torn & seen,
        whole=whole,
        seen=seen,
    )
