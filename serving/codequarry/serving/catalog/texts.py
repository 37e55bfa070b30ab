"""Texts of chunks, read from the Parquet files that hold them, a page at a time.

A text is found by shard and position, and costs one page of 16 KB (`text_pages`). No Parquet reader is loaded for it.
The pages that were read last stay in memory.
"""

from __future__ import annotations

import mmap
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Self

import numpy as np

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.text_pages import PAGE, PAGES_FILE
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.files.arrays import map_array
from codequarry.serving.text.literal_patterns import fold

_HELD = 2_048
"""Inflated pages that stay in memory: 32 MB. A scan of more texts inflates each page again."""
_LARGEST_PAGE = 64 * 2**20
"""Bytes of an inflated page that are believed: the array may come from elsewhere, and a page is inflated whole."""
Find = Callable[[bytes, int], int]
"""Returns the first place in a text, in UTF-8, at or behind a byte; -1 for none."""
_GZIP = 16 + zlib.MAX_WBITS


class MappedTexts:
    """Texts one after another for each shard, in the order of ``chunks_mat``. Safe to share between threads."""

    def __init__(self, files: dict[int, mmap.mmap], pages: np.ndarray) -> None:
        """Use mapped files.

        Args:
            files: Files by shard.
            pages: (p,) of `PAGE`, by shard and start.
        """
        self._files, self._pages = files, pages
        shards = pages["shard"]
        self._first = {
            number: (int(np.searchsorted(shards, number)), int(np.searchsorted(shards, number, "right")))
            for number in np.unique(shards).tolist()
        }
        self._starts: list[int] = pages["start"].tolist()
        self._cut: dict[tuple[int, int], bool] = {}
        # No method of this object: it would hold itself, and with it the maps of a version that is closed.
        self._page = lru_cache(maxsize=_HELD)(partial(_inflated, files, pages))

    @classmethod
    def open(cls, paths: BundlePaths) -> Self:
        """Map a version's texts. Each map holds a descriptor.

        Args:
            paths: Paths of the version.

        Returns:
            The mapped texts.

        Raises:
            OSError: No file descriptor or not enough memory is left.
            IntegrityError: The array of pages is damaged.
        """
        try:
            pages = map_array(paths.rows / PAGES_FILE)
        except FileNotFoundError as error:
            raise _not_whole(f"rows/{PAGES_FILE} is missing") from error
        if pages.dtype != PAGE or pages.ndim != 1 or not _is_ordered(pages):
            raise _not_whole(f"rows/{PAGES_FILE} is damaged")
        texts = cls({}, pages)
        try:
            for number, file in paths.chunk_tables().items():
                with file.open("rb") as stream:
                    if file.stat().st_size:  # nothing maps an empty file
                        texts._files[number] = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError:
            # The error keeps this frame alive, and with it the maps.
            texts.close()
            raise
        return texts

    @property
    def shards(self) -> int:
        """Number above that of every shard."""
        return 1 + max((*self._files, *self._first), default=-1)

    def of(self, shard: int, start: int, size: int) -> str:
        """Return a text.

        Args:
            shard: Shard of the chunk.
            start: Where it begins among the texts of the shard, in bytes.
            size: Its length in bytes.

        Returns:
            The text.
        """
        return self.read(shard, start, start + size).decode("utf-8", "replace")

    def holding(self, chunks: np.ndarray, find: Find, *, folded: bool) -> np.ndarray:
        """Return ids of the chunks in which something is found.

        Args:
            chunks: (n,) of the fields of `chunk_arrays.CHUNK`: rows of ``chunks_mat`` in order.
            find: Finds it. Chunks of a file that lie one behind the other are searched as one text.
            folded: It is looked for in the text in lower case.

        Returns:
            (m,) int64.
        """
        rows: list[int] = []
        for low, starts, data in self._runs(chunks):
            rows += (low + row for row in _rows_holding(data, starts, find, folded=folded))
        return chunks["chunk_id"][rows]

    def text_of(self, chunks: np.ndarray) -> str:
        """Return the texts of chunks, one behind the other.

        Args:
            chunks: (n,) of the fields of `chunk_arrays.CHUNK`: rows of ``chunks_mat`` in order.

        Returns:
            The text.
        """
        return b"".join(data for _, _, data in self._runs(chunks)).decode("utf-8", "replace")

    def cuts_words(self, chunks: np.ndarray) -> bool:
        """Tell whether one of the chunks of a file begins inside a word; files that were asked about are remembered.

        Args:
            chunks: (n,) of the fields of `chunk_arrays.CHUNK`: the rows of one file.

        Returns:
            True if letters, digits or underscores stand on both sides of a cut.
        """
        key = int(chunks["shard"][0]), int(chunks["text_start"][0])
        if key not in self._cut:
            self._cut[key] = any(_cuts_words(data, starts) for _, starts, data in self._runs(chunks))
        return self._cut[key]

    def _runs(self, chunks: np.ndarray) -> Iterator[tuple[int, np.ndarray, bytes]]:
        """Read chunks of a file together that lie one behind the other.

        Args:
            chunks: (n,) of the fields of `chunk_arrays.CHUNK`: rows of ``chunks_mat`` in order.

        Yields:
            Position of the first chunk, (m,) int64 starts of the chunks in the bytes, and the bytes.
        """
        shards, starts = chunks["shard"], np.ascontiguousarray(chunks["text_start"], np.int64)
        ends = starts + chunks["text_bytes"]
        paths, repos = chunks["path"], chunks["repo"]
        other_file = (paths[1:] != paths[:-1]) | (repos[1:] != repos[:-1])
        breaks = np.flatnonzero(other_file | (shards[1:] != shards[:-1]) | (starts[1:] != ends[:-1])) + 1
        for low, high in zip([0, *breaks.tolist()], [*breaks.tolist(), len(starts)], strict=True):
            if low < high:
                data = self.read(int(shards[low]), int(starts[low]), int(ends[high - 1]))
                yield low, starts[low:high] - starts[low], data

    def whole(self, shard: int) -> bytes:
        """Return all texts of a shard, one behind the other."""
        first, last = self._first.get(shard, (0, 0))
        return b"".join(_inflated(self._files, self._pages, number) for number in range(first, last))

    def close(self) -> None:
        """Give the files and the pages in memory back."""
        self._page.cache_clear()
        for file in self._files.values():
            file.close()

    def read(self, shard: int, start: int, end: int) -> bytes:
        """Return bytes of the texts of a shard.

        Args:
            shard: The shard.
            start: First byte.
            end: Byte behind the last one.

        Returns:
            The bytes.

        Raises:
            IntegrityError: They are not all there.
        """
        first, last = self._first.get(shard, (0, 0))
        if start >= end:
            return b""
        at = bisect_right(self._starts, start, first, last) - 1
        parts: list[bytes] = []
        reached = start
        while reached < end:
            if not first <= at < last:
                raise _not_whole(f"the texts of shard {shard} are not all there")
            page, begin = self._page(at), self._starts[at]
            if not begin <= reached < begin + len(page):
                raise _not_whole(f"the texts of shard {shard} are not all there")
            parts.append(page[reached - begin : end - begin])
            reached = begin + len(page)
            at += 1
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _inflated(files: Mapping[int, mmap.mmap], pages: np.ndarray, number: int) -> bytes:
    """Return the texts of a page, one behind the other.

    Args:
        files: Mapped files by shard.
        pages: (p,) of `PAGE`.
        number: Which page.

    Returns:
        The texts in UTF-8.

    Raises:
        IntegrityError: The page is not there, or damaged.
    """
    shard, size, _, offset, packed, raw = pages[number].item()
    file = files.get(shard)
    if file is None or offset + packed > len(file):
        raise _not_whole(f"the texts of shard {shard} are not all there")
    inflater = zlib.decompressobj(_GZIP)
    try:
        data = inflater.decompress(file[offset : offset + packed], raw)
    except zlib.error as error:
        raise _not_whole(f"a page of the texts of shard {shard} is damaged") from error
    if len(data) != raw:
        raise _not_whole(f"a page of the texts of shard {shard} is damaged")
    return data[raw - size :]


def _is_ordered(pages: np.ndarray) -> bool:
    """Check that the pages of each shard follow one another, and that no number is negative or far too large."""
    if not len(pages):
        return True
    same = np.diff(pages["shard"]) == 0
    return bool(
        min(int(pages[name].min()) for name in ("start", "bytes", "offset", "size")) >= 0
        and (pages["raw"] >= pages["bytes"]).all()
        and int(pages["raw"].max()) <= _LARGEST_PAGE
        and (np.diff(pages["shard"]) >= 0).all()
        and (np.diff(pages["start"])[same] == pages["bytes"][:-1][same]).all()
    )


def _not_whole(reason: str) -> IntegrityError:
    return IntegrityError(reason, suggestion="do not serve this version; publish again")


_IN_WORD = np.array([chr(byte).isalnum() or byte == ord("_") or byte >= 0x80 for byte in range(256)])
"""Bytes that a letter, a digit or an underscore may have in UTF-8: (256,) bool."""


def _cuts_words(data: bytes, starts: np.ndarray) -> bool:
    cuts = starts[(starts > 0) & (starts < len(data))]
    in_word = _IN_WORD[np.frombuffer(data, np.uint8)[np.concatenate([cuts - 1, cuts])]]
    return bool((in_word[: len(cuts)] & in_word[len(cuts) :]).any())


def _rows_holding(data: bytes, starts: np.ndarray, find: Find, *, folded: bool) -> Iterator[int]:
    """Find the chunks in which something is found, of chunks that lie one behind the other.

    Args:
        data: Text of the chunks in UTF-8.
        starts: (n,) int64, positions in ``data`` at which the chunks begin.
        find: Finds it.
        folded: It is looked for in the text in lower case.

    Yields:
        Positions of the chunks.
    """
    if folded:
        if data.isascii():
            data = data.lower()
        else:
            # Lower case may have another length, so it is made chunk by chunk.
            ends = [*starts[1:].tolist(), len(data)]
            folded_texts = [
                fold(data[start:end].decode("utf-8", "replace")).encode()
                for start, end in zip(starts.tolist(), ends, strict=True)
            ]
            data = b"".join(folded_texts)
            starts = np.cumsum([0, *map(len, folded_texts[:-1])])
    at = find(data, 0)
    while at >= 0:
        row = int(np.searchsorted(starts, at, side="right")) - 1
        yield row
        if row + 1 == len(starts):
            return
        at = find(data, int(starts[row + 1]))
