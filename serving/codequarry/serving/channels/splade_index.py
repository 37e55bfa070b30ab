"""Learned sparse index of a version: mapped files, exact search in integers, and checks against the manifest.

Search goes term at a time and adds up every posting of every term of the query. Skipping blocks by their largest impact
(Mallia et al. 2024) costs more than it saves: the terms of a language model spread so evenly that nearly every block
may hold one of the best (docs/adr/0018 has the figures).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codequarry.schemas.bundle.index_spec import ENCODER_FOLDER, REMEDY
from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.bundle.manifest import Manifest
from codequarry.schemas.bundle.splade import SpladeSpec
from codequarry.schemas.errors import CodequarryError, IntegrityError, UnavailableError
from codequarry.schemas.resources import raise_if_exhausted
from codequarry.serving.encoders.sparse import SparseQuery
from codequarry.serving.encoders.spec import EncoderSpec
from codequarry.serving.files.arrays import check_offsets, map_files


class SpladeIndex:
    """Mapped index of a version. Safe to share between threads."""

    def __init__(self, arrays: dict[str, np.ndarray], spec: SpladeSpec) -> None:
        self.spec = spec
        self.arrays = arrays
        self.chunk_ids = arrays["chunk_ids"]
        self._offsets = arrays["offsets"]
        self._documents = arrays["documents"]
        self._impacts = arrays["impacts"]

    @classmethod
    def open(cls, folder: Path) -> SpladeIndex:
        """Map the files of an index.

        Args:
            folder: Folder of the index.

        Returns:
            The mapped index.

        Raises:
            IntegrityError: The index is incomplete.
        """
        spec = SpladeSpec.load(folder)
        return cls(map_arrays(folder, spec), spec)

    def scores(self, query: SparseQuery, check: Callable[[], None]) -> NDArray[np.int32]:
        """Return the sum of products of every document.

        Args:
            query: Weighted terms of the query.
            check: Called before each term; an error that it raises ends the search.

        Returns:
            (n,) int32, in steps of query and document.

        Raises:
            UnavailableError: The index is damaged.
        """
        totals = np.zeros(self.spec.documents, np.int32)
        try:
            for term, weight in zip(query.terms.tolist(), query.weights, strict=True):
                check()
                documents, impacts = self.postings(term)
                # Each document occurs once, so no addition is lost.
                totals[documents] += impacts * weight
        except IndexError as error:
            raise UnavailableError("the index is damaged: a posting names no document") from error
        return totals

    def best(
        self, query: SparseQuery, limit: int, *, allowed: NDArray[np.int64] | None, check: Callable[[], None]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Find the best documents with a score above 0.

        Args:
            query: Weighted terms of the query.
            limit: Most documents to return.
            allowed: (m,) int64, sorted: only these chunks; None for all.
            check: Called before each term; an error that it raises ends the search.

        Returns:
            Rows and scores: best first, equal ones by row.
        """
        totals = self.scores(query, check)
        rows = np.flatnonzero(totals) if allowed is None else self.rows_of(allowed)
        found = totals[rows]
        rows, found = rows[found > 0], found[found > 0]
        if len(rows) > limit:
            least = np.partition(found, len(found) - limit)[len(found) - limit]
            rows, found = rows[found >= least], found[found >= least]
        order = np.lexsort((rows, -found))[:limit]
        return rows[order], found[order]

    def rows_of(self, chunk_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return rows of those chunks that the index holds: (m,) int64."""
        rows = np.searchsorted(self.chunk_ids, chunk_ids)
        rows[rows == len(self.chunk_ids)] = 0
        return rows[self.chunk_ids[rows] == chunk_ids] if len(self.chunk_ids) else rows[:0]

    def impacts(self, query: SparseQuery, row: int) -> NDArray[np.int32]:
        """Return the impacts of the query's terms in a document, in the order of the query: (m,) int32."""
        found = np.zeros(len(query.terms), np.int32)
        for place, term in enumerate(query.terms.tolist()):
            documents, impacts = self.postings(term)
            at = int(np.searchsorted(documents, row))
            if at < len(documents) and documents[at] == row:
                found[place] = impacts[at]
        return found

    def postings(self, term: int) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """Return the rows that have a term, ascending, and its impact in each."""
        start, end = int(self._offsets[term]), int(self._offsets[term + 1])
        return self._documents[start:end], self._impacts[start:end]


def map_arrays(folder: Path, spec: SpladeSpec) -> dict[str, np.ndarray]:
    """Map every file of an index, read-only; only headers, ids and offsets are read.

    Postings are not checked here: `strange_postings` does that, and a reader checks them as it uses them.

    Args:
        folder: Folder of the index.
        spec: Description of the index.

    Returns:
        Arrays by name.

    Raises:
        IntegrityError: A file is missing or truncated, or its shape, type, ids or offsets do not match the spec.
    """
    arrays = map_files(folder, spec)
    check_offsets(folder / "offsets.npy", arrays["offsets"], spec.postings)
    if (np.diff(arrays["chunk_ids"]) <= 0).any():
        raise IntegrityError(f"{folder}/chunk_ids.npy: not ascending", suggestion=REMEDY)
    return arrays


def strange_postings(arrays: dict[str, np.ndarray], spec: SpladeSpec) -> int:
    """Count postings without a document, out of order, repeated inside their term, or without an impact."""
    documents = arrays["documents"]
    strange = int(np.count_nonzero((documents < 0) | (documents >= spec.documents)))
    starts = np.zeros(spec.postings, np.bool_)
    offsets = arrays["offsets"]
    starts[offsets[:-1][np.diff(offsets) > 0]] = True
    strange += int(np.count_nonzero((np.diff(documents) <= 0) & ~starts[1:]))
    return strange + int(np.count_nonzero(arrays["impacts"] == 0))


def compare_splade(paths: BundlePaths, manifest: Manifest) -> list[tuple[str, str, str]]:
    """Return checks as (name, found, expected); the last two must be equal.

    Document ids are checked elsewhere, with those of all indexes.
    """
    promised = manifest.splade
    if promised is None:
        found = "present" if paths.splade.exists() else "absent"
        return [("files of learned sparse terms without an entry in the manifest", found, "absent")]
    try:
        spec = SpladeSpec.load(paths.splade)
        arrays = map_arrays(paths.splade, spec)
        encoder = EncoderSpec.load(paths.splade / ENCODER_FOLDER)
    except CodequarryError as error:
        raise_if_exhausted(error, "the learned sparse index cannot be read now")
        return [("learned sparse index", error.message, "a whole index")]
    return [
        ("postings of learned sparse terms that lead nowhere", str(strange_postings(arrays, spec)), "0"),
        (
            "size of the learned sparse index",
            f"{spec.documents} chunks, {spec.postings} postings",
            f"{promised.documents} chunks, {promised.postings} postings",
        ),
        (
            "vocabulary of the sparse encoders",
            f"{spec.vocabulary}, {encoder.dim}",
            f"{promised.encoder.dim}, {promised.encoder.dim}",
        ),
        ("fingerprint of the sparse encoder of chunks", spec.encoder[:12], promised.encoder.fingerprint[:12]),
        (
            "fingerprint of the sparse encoder of queries",
            f"{spec.query_encoder[:12]}, {encoder.fingerprint[:12]}",
            f"{promised.query_encoder[:12]}, {promised.query_encoder[:12]}",
        ),
    ]
