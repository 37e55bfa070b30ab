"""The texts of chunks: mapped files, from which one is read by its place."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from codequarry.schemas.errors import IntegrityError
from codequarry.schemas.layout import BundlePaths
from codequarry.serving.text_patterns import fold

if TYPE_CHECKING:
    import duckdb


class Texts(Protocol):
    """How a version keeps the texts of its chunks."""

    columns: str
    """Those of ``chunks_mat`` that tell a chunk's text."""

    def of(self, values: tuple[Any, ...]) -> str:
        """The text that the values of these columns tell."""
        ...

    def holding(
        self, cursor: duckdb.DuckDBPyConnection, needle: str, first: int, last: int, *, folded: bool
    ) -> np.ndarray:
        """Ids of the chunks between two rows in which the needle starts: (m,) int64.

        first, last: rows of ``chunks_mat``, inclusive. folded: the needle is lower case and the text may be any.
        """
        ...

    def close(self) -> None:
        """Give the files back."""
        ...


class MappedTexts:
    """Texts one after another in a file for each shard, in the order of ``chunks_mat``."""

    columns = "shard, text_start, text_bytes"

    def __init__(self, files: dict[int, mmap.mmap]) -> None:
        self._files = files

    @classmethod
    def open(cls, paths: BundlePaths) -> Self:
        """Map a version's texts. Each map holds a descriptor. Raises OSError: there is none left, or no memory."""
        texts = cls({})
        try:
            for number, file in paths.text_files().items():
                with file.open("rb") as stream:
                    if file.stat().st_size:  # nothing maps an empty file
                        texts._files[number] = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError:
            # The error holds on to this frame, and with it to what is mapped.
            texts.close()
            raise
        return texts

    def of(self, values: tuple[Any, ...]) -> str:
        shard, start, size = values
        return self._read(shard, start, start + size).decode("utf-8", "replace")

    def holding(
        self, cursor: duckdb.DuckDBPyConnection, needle: str, first: int, last: int, *, folded: bool
    ) -> np.ndarray:
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
        for file in self._files.values():
            file.close()

    def _read(self, shard: int, start: int, end: int) -> bytes:
        file = self._files.get(shard)
        if file is None or end > len(file):
            raise IntegrityError(
                f"the texts of shard {shard} are not all there", suggestion="do not serve this version; publish again"
            )
        return file[start:end]


class TableTexts:
    """Texts in ``chunks_mat`` itself, as formats before 3 have them."""

    columns = "text"

    def of(self, values: tuple[Any, ...]) -> str:
        return values[0]

    def holding(
        self, cursor: duckdb.DuckDBPyConnection, needle: str, first: int, last: int, *, folded: bool
    ) -> np.ndarray:
        text = "lower(text)" if folded else "text"
        sql = f"SELECT chunk_id FROM chunks_mat WHERE rowid BETWEEN ? AND ? AND contains({text}, ?)"
        return cursor.execute(sql, [first, last, needle]).fetchnumpy()["chunk_id"].astype(np.int64)

    def close(self) -> None:
        pass


def _rows_holding(data: bytes, starts: np.ndarray, needle: bytes, *, folded: bool) -> Iterator[int]:
    """Positions of the chunks of a file in which the needle starts.

    data: UTF-8. starts: (n,) int64, where in it the chunks begin.
    """
    if folded:
        if data.isascii():
            data = data.lower()
        else:
            # Lengths may change: chunk by chunk.
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
