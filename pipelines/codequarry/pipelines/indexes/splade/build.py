"""Building a learned sparse index: documents by term, in bounded memory, the same bytes each time.

Documents go to disk first. Each pass over them gathers the postings of as many terms as fit into memory, so that every
file is written from front to back.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codequarry.pipelines.indexes.array_files import ArrayWriter, write_array
from codequarry.pipelines.store.workspace import Progress, silent
from codequarry.schemas.bundle.splade import SpladeSpec
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.serving.encoders.sparse import Impacts
from codequarry.serving.files.arrays import map_array

_BYTES = 32
"""Bytes of memory for each posting of a pass."""
_BLOCK = 1 << 18
"""Postings read at once."""


@dataclass(frozen=True, slots=True)
class SpladePlan:
    """Parameters of an index besides its documents."""

    vocabulary: int
    step: float
    """Weight of an impact of 1."""
    encoder: str
    """Fingerprint of the encoder of documents."""
    query_encoder: str
    terms: int = 256
    """Most terms kept of a document, the heaviest ones."""
    memory_mb: int = 512
    """MiB for the postings of a pass."""


def build_splade(
    folder: Path, documents: Iterable[tuple[int, Impacts]], plan: SpladePlan, progress: Progress = silent
) -> SpladeSpec:
    """Write an index into an empty folder.

    Args:
        folder: The folder.
        documents: (chunk id, impacts) with ascending ids; read once. One without any term stays a document.
        plan: Parameters of the index.
        progress: Told of the postings written.

    Returns:
        Sizes of the index.

    Raises:
        InvalidArgumentError: Ids do not ascend, or a term is not of the vocabulary.
    """
    counts = np.zeros(plan.vocabulary, np.int64)
    ids: list[int] = []
    with tempfile.TemporaryDirectory(dir=folder, prefix="scratch-") as scratch:
        rows_file, terms_file, impacts_file = (Path(scratch) / f"{name}.npy" for name in ("rows", "terms", "impacts"))
        with (
            ArrayWriter(rows_file, np.dtype("<i4")) as rows,
            ArrayWriter(terms_file, np.dtype("<i4")) as terms,
            ArrayWriter(impacts_file, np.dtype("u1")) as impacts,
        ):
            for chunk_id, found in documents:
                if ids and chunk_id <= ids[-1]:
                    raise InvalidArgumentError(
                        f"chunk {chunk_id} comes behind {ids[-1]}, expected ascending ids", suggestion="sort the chunks"
                    )
                kept = found.heaviest(plan.terms)
                if len(kept.terms) and not 0 <= kept.terms[0] <= kept.terms[-1] < plan.vocabulary:
                    raise InvalidArgumentError(
                        f"chunk {chunk_id} has terms {kept.terms[0]} to {kept.terms[-1]}, expected 0 to "
                        f"{plan.vocabulary - 1}",
                        suggestion="encode the chunk again",
                    )
                counts[kept.terms] += 1
                rows.write(np.full(len(kept.terms), len(ids), np.int32))
                terms.write(kept.terms)
                impacts.write(kept.impacts)
                ids.append(chunk_id)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype("<i8")
        scratched = _DocumentPostings(*(map_array(file) for file in (rows_file, terms_file, impacts_file)))
        with (
            ArrayWriter(folder / "documents.npy", np.dtype("<i4")) as documents_out,
            ArrayWriter(folder / "impacts.npy", np.dtype("u1")) as impacts_out,
        ):
            for first, end in _passes(offsets, plan.memory_mb * (1 << 20) // _BYTES):
                documents_, impacts_ = scratched.postings(first, end)
                documents_out.write(documents_)
                impacts_out.write(impacts_)
                progress("splade: postings", int(offsets[end]), int(offsets[-1]))
        del scratched  # mapped files must be let go before the scratch folder is
    write_array(folder / "chunk_ids.npy", np.array(ids, np.dtype("<i8")))
    write_array(folder / "offsets.npy", offsets)
    spec = SpladeSpec(
        documents=len(ids),
        vocabulary=plan.vocabulary,
        postings=int(offsets[-1]),
        terms=plan.terms,
        step=plan.step,
        encoder=plan.encoder,
        query_encoder=plan.query_encoder,
    )
    spec.save(folder)
    return spec


@dataclass(frozen=True, slots=True)
class _DocumentPostings:
    """Postings document by document: (P,) row, term and impact of each."""

    rows: np.ndarray
    terms: np.ndarray
    impacts: np.ndarray

    def postings(self, first: int, end: int) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """Return documents and impacts of the terms from ``first`` up to ``end``, by term and then by document."""
        found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for start in range(0, len(self.terms), _BLOCK):
            terms = self.terms[start : start + _BLOCK]
            of_pass = np.flatnonzero((terms >= first) & (terms < end))
            found.append(
                (
                    terms[of_pass],
                    self.rows[start : start + _BLOCK][of_pass],
                    self.impacts[start : start + _BLOCK][of_pass],
                )
            )
        if not found:
            return np.empty(0, np.int32), np.empty(0, np.uint8)
        terms, rows, impacts = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(terms, kind="stable")
        return rows[order], impacts[order]


def _passes(offsets: NDArray[np.int64], postings: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of terms, each with at most that many postings, or of a single term."""
    first, last = 0, len(offsets) - 1
    while first < last:
        end = int(np.searchsorted(offsets, offsets[first] + postings, side="right")) - 1
        end = min(max(end, first + 1), last)
        yield first, end
        first = end
