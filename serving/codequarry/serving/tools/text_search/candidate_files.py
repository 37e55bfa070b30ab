"""The files in which a pattern may match: what the lexical index and a scan of the texts leave of them.

Both only exclude files that cannot match. They are files and not chunks, so that a match may lie across a chunk
boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from codequarry.schemas.errors import UnavailableError
from codequarry.serving.catalog.filters import members
from codequarry.serving.channels.bm25 import Bm25Channel
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.text.literal_patterns import TextPattern
from codequarry.serving.version.open import Bundle

_FIRST_BATCH, _LAST_BATCH = 256, 1024
"""Chunks read at once: few at first, because common patterns are done after them; many cost memory."""
_SCAN_SHARE = 8
"""Reading a chunk costs about eight times as much as scanning it: where fewer have to be read, no scan pays."""
_SCAN_ROWS = 8_192
"""Chunks scanned between two looks at the clock, about 30 ms where no page of them is in memory."""
_FEW = 1_024
"""Chunks that are scanned at once; no further term is looked up when so few are left."""


class CandidateFiles:
    """Files that may match, as they are read.

    A match within a line lies in one chunk, unless a chunk of the file begins inside a line (`ChunkDirectory.torn`).
    Such a file is judged as a whole; one with a cut inside a word stays a candidate, whatever the index says.

    Args:
        pattern: What is searched.
        bundle: Version to search.
        files: Files to search: (files,) bool.
        deadline: Deadline of the request. Files that were not scanned when half of the time is gone stay candidates:
            the other half is for reading.
    """

    def __init__(self, pattern: TextPattern, bundle: Bundle, files: np.ndarray, deadline: Deadline) -> None:
        self._pattern, self._required = pattern, pattern.required
        self._bundle, self._deadline = bundle, deadline
        self.notes: list[str] = []
        """Sentences for the caller."""
        self._rows: np.ndarray | None = None
        if self._required.fragments:
            try:
                files = self._by_index(files)
            except UnavailableError as error:
                self.notes.append(f"every text is scanned, the lexical index is off: {error.message}")
        order = bundle.directory.reading_order
        self._left = order[files[order]]
        self._begun = 0

    @property
    def count(self) -> int:
        """Number of files that may match, those that were yielded included."""
        return self._begun + len(self._left)

    def batches(self, filled: Callable[[], float]) -> Iterator[np.ndarray]:
        """Yield the files in reading order, some at a time.

        Once the first were read, it is known whether the answer will be full before a scan of the others would pay.

        Args:
            filled: Returns the share of the answer that the files yielded so far have filled.

        Yields:
            (m,) int64 files.
        """
        sizes, read, size = self._bundle.directory.chunk_counts, 0, _FIRST_BATCH
        unscanned = self._required.found
        while len(self._left):
            if unscanned and self._scan_pays(read, filled()):
                self._scan()
                unscanned = False
                continue
            ends = np.cumsum(sizes[self._left])
            end = max(1, int(np.searchsorted(ends, size, side="right")))
            batch, self._left = self._left[:end], self._left[end:]
            self._begun += end
            read, size = read + int(ends[end - 1]), min(size * 2, _LAST_BATCH)
            yield batch

    def _scan_pays(self, read: int, filled: float) -> bool:
        """Tell whether a scan costs less than reading on until the answer is full.

        Args:
            read: Chunks that were read.
            filled: Share of the answer that they filled.

        Returns:
            True where it does; for the first few chunks also where little is left to scan.
        """
        left = int(self._bundle.directory.chunk_counts[self._left].sum())
        scanned = left if self._rows is None else len(self._rows)
        if not read and scanned > _FEW:
            return False
        needed = min(left, read * (1 - filled) / filled) if filled else left
        return needed * _SCAN_SHARE > scanned

    def _by_index(self, files: np.ndarray) -> np.ndarray:
        """Return the files that may match by the lexical index: (files,) bool. Chunks that may are kept."""
        directory, channel = self._bundle.directory, self._bundle.channels.get("bm25")
        if not isinstance(channel, Bm25Channel):
            raise UnavailableError(self._bundle.closed.get("bm25", "it is not open"))
        whole = directory.torn if self._required.in_line else np.ones(len(files), np.bool_)
        found: np.ndarray | None = None
        for chunk_ids in channel.holding(self._required.fragments):
            files = files & (directory.files_with(chunk_ids) | self._bundle.cut_words)
            found = chunk_ids if found is None else found[members(found, np.sort(chunk_ids))]
            if self._required.in_line and len(found) <= _FEW:
                break
        if found is None:
            return files
        rows = self._bundle.catalog.index.rows_of(found)
        rows = rows[rows >= 0]
        of = directory.files_of_rows(rows)
        kept = (of >= 0) & (files & ~whole)[of]
        files = files & whole
        self._rows = np.union1d(rows[kept], directory.rows_of(np.flatnonzero(files)))
        files[of[kept]] = True
        return files

    def _scan(self) -> None:
        """Leave those files in which the pattern may match. The chunks of a torn file are searched as one text."""
        directory, catalog = self._bundle.directory, self._bundle.catalog
        deadline = self._deadline.half()
        rows = np.sort(directory.rows_of(self._left))
        if self._rows is not None:
            rows = np.intersect1d(rows, self._rows, assume_unique=True)
        of = directory.files_of_rows(rows)
        ends = np.append(np.flatnonzero(of[1:] != of[:-1]) + 1, len(of))
        found, start = np.zeros(len(directory.paths), np.bool_), 0
        while start < len(rows):
            if deadline.passed:
                found[of[start:]] = True
                break
            end = int(ends[np.searchsorted(ends, min(start + _SCAN_ROWS, len(rows)))])
            holding = catalog.holding(self._pattern.find, rows[start:end], folded=self._required.folded)
            found |= directory.files_with(holding)
            start = end
        self._left = self._left[found[self._left]]
