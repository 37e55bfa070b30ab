"""The learned sparse channel: the encoder of queries and the inverted index of a version."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from codequarry.schemas.errors import CodequarryError, IntegrityError, UnavailableError
from codequarry.schemas.manifest import SpladeEntry
from codequarry.schemas.mapped_index import ENCODER_FOLDER
from codequarry.schemas.sparse_encoder import QueryEncoder, SparseQuery, open_query_encoder
from codequarry.schemas.splade_layout import SpladeSpec
from codequarry.schemas.token_encoder import token_text
from codequarry.schemas.tools import Expansion, ImpactTerm
from codequarry.serving.catalog import ChunkRow
from codequarry.serving.channels import Candidates
from codequarry.serving.deadline import Deadline
from codequarry.serving.splade_index import SpladeIndex
from codequarry.serving.trace import stage

MAX_EXPLAINED = 8
"""Terms of an explanation."""
_REMEMBERED = 32
"""Queries that are kept encoded: a request asks with the same one for candidates and for explanations."""
_MAX_TERM_CHARS = 64


@dataclass(frozen=True, slots=True)
class _Opened:
    """What takes long to open."""

    encoder: QueryEncoder
    asked: Callable[[str], SparseQuery]


class SpladeChannel:
    """Chunks by the weighted terms that a model gives to them and to the query, or that the query's words weigh."""

    name = "splade"

    def __init__(self, opening: Future[_Opened], index: SpladeIndex, *, source: str) -> None:
        self.source = source
        self._opening = opening
        self._index = index

    @classmethod
    def open(cls, folder: Path, entry: SpladeEntry, chunks: int) -> SpladeChannel:
        """Map a version's index, and begin to open its encoder of queries on a thread of its own.

        chunks: of the version.

        Raises UnavailableError: the index is not whole, or is not the one the manifest describes.
        """
        index = SpladeIndex.open(folder)
        spec = index.spec
        found = (spec.documents, spec.encoder, spec.query_encoder)
        if found != (chunks, entry.encoder.fingerprint, entry.query_encoder):
            raise UnavailableError(
                f"the index holds {spec.documents} chunks by encoder {spec.encoder[:12]}…, "
                f"expected {chunks} by {entry.encoder.fingerprint[:12]}…"
            )
        pool = ThreadPoolExecutor(1, thread_name_prefix="open-splade")
        try:
            opening = pool.submit(_open, folder / ENCODER_FOLDER, spec)
        except RuntimeError as error:
            raise UnavailableError("there is no thread left to open the sparse encoder on") from error
        finally:
            pool.shutdown(wait=False)
        return cls(opening, index, source=f"splade_{entry.queries}")

    def search(
        self, query: str, limit: int, *, allowed: np.ndarray | None, rerank: bool, deadline: Deadline | None = None
    ) -> Candidates:
        """See `Channel.search`; scores are exact, so ``rerank`` changes nothing.

        deadline: looked at before each term. Raises DeadlineError: it has passed.
        """
        with stage("splade_encode"):
            asked = self._ready().asked(query)
        rows, totals = self._index.best(
            asked, limit, allowed=allowed, check=deadline.check if deadline is not None else _unlimited
        )
        scores = (totals * (asked.step * self._index.spec.step)).astype(np.float32)
        notes = ("learned sparse search read only the beginning of the query",) if asked.cut else ()
        return Candidates(np.asarray(self._index.chunk_ids[rows]), scores, notes)

    def explain(self, query: str, row: ChunkRow) -> list[ImpactTerm]:
        """The terms that add most to a chunk's score, a few; empty for one that the index does not hold."""
        opened = self._ready()
        asked, encoder = opened.asked(query), opened.encoder
        rows = self._index.rows_of(np.array([row.chunk_id], np.int64))
        if not len(rows):
            return []
        impacts = self._index.impacts(asked, int(rows[0]))
        products = impacts.astype(np.int64) * asked.weights
        order = np.lexsort((asked.terms, -products))[:MAX_EXPLAINED]
        text, _ = token_text(path=row.path, qualified_name=row.qualified_name, text=row.text)
        written = encoder.written(text)
        step, query_step = self._index.spec.step, asked.step
        return [
            ImpactTerm(
                term=encoder.text(term)[:_MAX_TERM_CHARS],
                score=round(float(products[place]) * step * query_step, 6),
                query_weight=round(float(asked.weights[place]) * query_step, 6),
                impact=round(float(impacts[place]) * step, 6),
                expansion=_expansion(term in asked.written, term in written),
            )
            for place, term in zip(order.tolist(), asked.terms[order].tolist(), strict=True)
            if products[place]
        ]

    def problem(self) -> str | None:
        """Why the channel cannot answer, once that is known."""
        if not self._opening.done():
            return None
        error = self._opening.exception()
        if error is None:
            return None
        if isinstance(error, CodequarryError):
            return str(error) if isinstance(error, ImportError) else error.message
        return f"the sparse encoder cannot be opened ({type(error).__name__})"

    def close(self) -> None:
        """Wait for the opening and drop the maps."""
        self._opening.exception()
        del self._opening, self._index

    def _ready(self) -> _Opened:
        # The one exception of a future would collect the frames of every request that it is raised in.
        error = self._opening.exception()
        if error is not None:
            raise UnavailableError(self.problem() or "the sparse encoder cannot be opened")
        return self._opening.result()


def _open(folder: Path, spec: SpladeSpec) -> _Opened:
    encoder = open_query_encoder(folder)
    if (encoder.spec.fingerprint, encoder.spec.dim) != (spec.query_encoder, spec.vocabulary):
        raise IntegrityError(
            f"the sparse encoder is {encoder.spec.fingerprint[:12]}… of {encoder.spec.dim} terms, the index was made "
            f"for {spec.query_encoder[:12]}… of {spec.vocabulary}",
            suggestion="build the bundle again",
        )
    asked = lru_cache(maxsize=_REMEMBERED)(encoder.encode_query)
    # The first run allocates and picks kernels; better here than under the first request.
    asked("warm up")
    return _Opened(encoder, asked)


def _expansion(in_query: bool, in_code: bool) -> Expansion:
    """Where a term is not written, but was added by the model."""
    if in_query:
        return "none" if in_code else "code"
    return "query" if in_code else "both"


def _unlimited() -> None:
    """No deadline."""
