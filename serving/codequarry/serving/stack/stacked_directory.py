"""Directory of the chunks and files of a delta version and its base."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codequarry.serving.catalog.directory import ChunkDirectory
from codequarry.serving.stack.overlay import StackArrays
from codequarry.serving.stack.stacked_rows import StackedRows


@dataclass(frozen=True)
class StackedDirectory(ChunkDirectory):
    """Files of the base by their numbers, behind them those of the delta. A hidden file has no name and no chunk."""

    base: ChunkDirectory
    own: ChunkDirectory

    @cached_property
    def place(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Position of each file among all by repository and path: (files,) int64."""
        at = sorted(range(len(self.paths)), key=lambda file: (self.repos[file], self.paths[file]))
        found = np.empty(len(at), np.int64)
        found[at] = np.arange(len(at))
        return found

    def find(self, repo: str, path: str) -> int | None:
        """Return the row of a file; None when the file is unknown."""
        file = self.own.find(repo, path)
        if file is not None:
            return len(self.base.paths) + file
        file = self.base.find(repo, path)
        return file if file is not None and self.paths[file] else None


def stacked_directory(stack: StackArrays, rows: StackedRows) -> StackedDirectory:
    """Return the directory of a stack.

    Args:
        stack: The stack.
        rows: Its chunks.

    Returns:
        The directory.
    """
    base, own, hidden = stack.base.directory, stack.own.directory, stack.hidden_files
    repos, paths, langs = (list(column) for column in (base.repos, base.paths, base.langs))
    for file in stack.hidden.tolist():
        repos[file] = paths[file] = langs[file] = ""
    counts = np.concatenate([np.where(hidden, 0, base.chunk_counts), own.chunk_counts])
    first_rows = np.concatenate([base.first_rows, stack.base.chunks + own.first_rows])
    file_by_row = np.concatenate([
        np.repeat(np.arange(len(base.paths)), base.chunk_counts),
        len(base.paths) + np.repeat(np.arange(len(own.paths)), own.chunk_counts),
    ])  # fmt: skip
    return StackedDirectory(
        rows.ids,
        file_by_row[rows.ids_rows].astype(np.int32),
        (*repos, *own.repos),
        (*paths, *own.paths),
        (*langs, *own.langs),
        np.concatenate([base.class_rank, own.class_rank]),
        by_row=rows.chunks.ids,
        first_rows=first_rows,
        chunk_counts=counts,
        torn=np.concatenate([base.torn & ~hidden, own.torn]),
        base=base,
        own=own,
    )
