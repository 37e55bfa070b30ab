"""Texts of chunks in memory-mapped files, addressed by position."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.text.literal_patterns import fold

if TYPE_CHECKING:
    import duckdb


class MappedTexts:
    """Texts one after another in one file per shard, in the order of ``chunks_mat``."""

    columns = "shard, text_start, text_bytes"
    """Those of ``chunks_mat`` that tell a chunk's text."""

    def __init__(self, files: dict[int, mmap.mmap]) -> None:
        self._files = files

    @classmethod
    def open(cls, paths: BundlePaths) -> Self:
        """Map a version's texts. Each map holds a descriptor.

        Args:
            paths: Paths of the version.

        Returns:
            The mapped texts.

        Raises:
            OSError: No file descriptor or not enough memory is left.
        """
        texts = cls({})
        try:
            for number, file in paths.text_files().items():
                with file.open("rb") as stream:
                    if file.stat().st_size:  # nothing maps an empty file
                        texts._files[number] = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError:
            # The error keeps this frame alive, and with it the maps.
            texts.close()
            raise
        return texts

    def of(self, values: tuple[Any, ...]) -> str:
        """Return the text that the values of `columns` tell."""
        shard, start, size = values
        return self._read(shard, start, start + size).decode("utf-8", "replace")

    def holding(
        self, cursor: duckdb.DuckDBPyConnection, needle: str, first: int, last: int, *, folded: bool
    ) -> np.ndarray:
        """Return ids of the chunks between two rows in which the needle starts.

        Args:
            cursor: Cursor of the catalog.
            needle: Text to find.
            first: First row of ``chunks_mat``.
            last: Last row of ``chunks_mat``, inclusive.
            folded: The needle is in lower case, and the case of the text is ignored.

        Returns:
            (m,) int64.
        """
        sql = f"SELECT chunk_id, {self.columns} FROM chunks_mat WHERE rowid BETWEEN ? AND ? ORDER BY rowid"
        found = cursor.execute(sql, [first, last]).fetchnumpy()
        shards, starts = found["shard"], found["text_start"].astype(np.int64)
        ends = starts + found["text_bytes"]
        # A file's chunks lie one behind the other.
        breaks = np.flatnonzero((shards[1:] != shards[:-1]) | (starts[1:] != ends[:-1])) + 1
        wanted = needle.encode("utf-8", "surrogatepass")
        rows: list[int] = []
        for low, high in zip([0, *breaks.tolist()], [*breaks.tolist(), len(starts)], strict=True):
            if low < high:
                own = starts[low:high] - starts[low]
                data = self._read(int(shards[low]), int(starts[low]), int(ends[high - 1]))
                rows += (low + row for row in _rows_holding(data, own, wanted, folded=folded))
        return found["chunk_id"].astype(np.int64)[rows]

    def close(self) -> None:
        """Give the files back."""
        for file in self._files.values():
            file.close()

    def _read(self, shard: int, start: int, end: int) -> bytes:
        file = self._files.get(shard)
        if file is None or end > len(file):
            raise IntegrityError(
                f"the texts of shard {shard} are not all there", suggestion="do not serve this version; publish again"
            )
        return file[start:end]


def _rows_holding(data: bytes, starts: np.ndarray, needle: bytes, *, folded: bool) -> Iterator[int]:
    """Find the chunks of a file in which the needle starts.

    Args:
        data: Text of the file in UTF-8.
        starts: (n,) int64, positions in ``data`` at which the chunks begin.
        needle: Text to find, in UTF-8.
        folded: The needle is in lower case, and the case of the text is ignored.

    Yields:
        Positions of the chunks.
    """
    if folded:
        if data.isascii():
            data = data.lower()
        else:
            # Case folding may change lengths, so it is done chunk by chunk.
            ends = [*starts[1:].tolist(), len(data)]
            for row, (start, end) in enumerate(zip(starts.tolist(), ends, strict=True)):
                if needle in fold(data[start:end].decode("utf-8", "replace")).encode():
                    yield row
            return
    at = data.find(needle)
    while at >= 0:
        row = int(np.searchsorted(starts, at, side="right")) - 1
        yield row
        if row + 1 == len(starts):
            return
        at = data.find(needle, int(starts[row + 1]))
