"""Which files may match: asked of the lexical index where a pattern holds whole words, else of the catalog's texts."""

from __future__ import annotations

import numpy as np

from codequarry.schemas.errors import UnavailableError
from codequarry.serving.bm25 import Bm25Channel
from codequarry.serving.bundle import Bundle
from codequarry.serving.deadline import Deadline
from codequarry.serving.text_patterns import Required

_SCAN_SHARE = 8
"""Reading a chunk costs about eight times as much as scanning it: where the index left over more, a scan pays."""
_SCAN_ROWS = 32_768
"""Chunks scanned between two looks at the clock, about 30 ms."""


def candidate_files(
    required: Required, bundle: Bundle, files: np.ndarray, deadline: Deadline, limits: list[str]
) -> np.ndarray:
    """(files,) bool: those among ``files`` that may match; no other does.

    A file with a chunk that starts inside a line stays a candidate: what is required may lie across that boundary.
    So does, once half of the time is gone, what was not scanned: the other half is for reading.
    """
    directory = bundle.directory
    if required.terms:
        try:
            files = files & (_by_terms(required.terms, bundle) | directory.torn)
        except UnavailableError as error:
            limits.append(f"every text is scanned, the lexical index is off: {error.message}")
    left = int(np.diff(directory.row_starts)[files].sum())
    if required.needle and left * _SCAN_SHARE > len(directory.by_row):
        files = files & (_by_scan(required, bundle, deadline.half()) | directory.torn)
    return files


def _by_terms(terms: tuple[str, ...], bundle: Bundle) -> np.ndarray:
    channel = bundle.channels.get("bm25")
    if not isinstance(channel, Bm25Channel):
        raise UnavailableError(bundle.closed.get("bm25", "it is not open"))
    found = np.ones(len(bundle.directory.paths), np.bool_)
    for chunk_ids in channel.holding(terms):
        found &= bundle.directory.files_with(chunk_ids)
    return found


def _by_scan(required: Required, bundle: Bundle, deadline: Deadline) -> np.ndarray:
    directory = bundle.directory
    found = np.zeros(len(directory.paths), np.bool_)
    for first in range(0, len(directory.by_row), _SCAN_ROWS):
        if deadline.passed:
            return found | directory.files_from(first)
        last = first + _SCAN_ROWS - 1
        found |= directory.files_with(bundle.catalog.holding(required.needle, first, last, folded=required.folded))
    return found
