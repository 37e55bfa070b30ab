"""Learned sparse channel: the query encoder and the inverted index of a version."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from codequarry.schemas.bundle.index_spec import ENCODER_FOLDER
from codequarry.schemas.bundle.manifest import SpladeEntry
from codequarry.schemas.bundle.splade import SpladeSpec
from codequarry.schemas.errors import CodequarryError, IntegrityError, UnavailableError
from codequarry.schemas.wire.search import Expansion, ImpactTerm
from codequarry.serving.catalog.catalog import ChunkRow
from codequarry.serving.channels.base import Candidates, Channel, ChannelQuery
from codequarry.serving.channels.splade_index import SpladeIndex
from codequarry.serving.encoders.sparse import QueryEncoder, SparseQuery, open_query_encoder
from codequarry.serving.encoders.tokens import token_text
from codequarry.serving.request.trace import stage
from codequarry.serving.text.query_classes import Query

MAX_EXPLAINED = 8
"""Terms of an explanation."""
_REMEMBERED = 32
"""Queries that are kept encoded: a request asks with the same one for candidates and for explanations."""
_MAX_TERM_CHARS = 64


@dataclass(frozen=True, slots=True)
class _OpenTerms:
    """Parts that take long to open."""

    encoder: QueryEncoder
    asked: Callable[[str], SparseQuery]


class SparseChannel(Channel):
    """Channel of weighted terms."""

    @abstractmethod
    def explain(self, query: Query, row: ChunkRow) -> list[ImpactTerm]:
        """Return the few terms that add most to a chunk's score; empty for a chunk that is not in the index."""


class SpladeChannel(SparseChannel):
    """Channel that ranks chunks by weighted terms, given by a model to chunks and to the query or its words.

    Its scores are exact. The deadline is checked before each term.
    """

    name = "splade"

    def __init__(self, opening: Future[_OpenTerms], index: SpladeIndex, *, source: str) -> None:
        self.source = source
        self._opening = opening
        self._index = index

    @classmethod
    def open(
        cls, folder: Path, entry: SpladeEntry, chunks: int, *, beside: SpladeChannel | None = None
    ) -> SpladeChannel:
        """Map a version's index, and begin to open its query encoder on a thread of its own.

        Args:
            folder: Folder of the index.
            entry: Manifest entry of the index.
            chunks: Number of the version's chunks.
            beside: Channel whose open query encoder is used.

        Returns:
            The open channel.

        Raises:
            UnavailableError: The index is incomplete, or is not the one that the manifest describes.
        """
        index = SpladeIndex.open(folder)
        spec = index.spec
        found = (spec.documents, spec.encoder, spec.query_encoder)
        if found != (chunks, entry.encoder.fingerprint, entry.query_encoder):
            raise UnavailableError(
                f"the index holds {spec.documents} chunks by encoder {spec.encoder[:12]}…, "
                f"expected {chunks} by {entry.encoder.fingerprint[:12]}…"
            )
        source = f"splade_{entry.queries}"
        if beside is not None:
            return cls(beside._opening, index, source=source)
        pool = ThreadPoolExecutor(1, thread_name_prefix="open-splade")
        try:
            opening = pool.submit(_open, folder / ENCODER_FOLDER, spec)
        except RuntimeError as error:
            raise UnavailableError("there is no thread left to open the sparse encoder on") from error
        finally:
            pool.shutdown(wait=False)
        return cls(opening, index, source=source)

    def _rank(self, asked: ChannelQuery) -> Candidates:
        with stage("splade_encode"):
            query = self._ready().asked(asked.query.text)
        rows, totals = self._index.best(query, asked.limit, allowed=asked.allowed, check=asked.deadline.check)
        scores = (totals * (query.step * self._index.spec.step)).astype(np.float32)
        notes = ("learned sparse search read only the beginning of the query",) if query.cut else ()
        return Candidates(np.asarray(self._index.chunk_ids[rows]), scores, notes)

    def explain(self, query: Query, row: ChunkRow) -> list[ImpactTerm]:
        """Return terms, see `SparseChannel`."""
        opened = self._ready()
        asked, encoder = opened.asked(query.text), opened.encoder
        rows = self._index.rows_of(np.array([row.chunk_id], np.int64))
        if not len(rows):
            return []
        impacts = self._index.impacts(asked, int(rows[0]))
        products = impacts.astype(np.int64) * asked.weights
        order = np.lexsort((asked.terms, -products))[:MAX_EXPLAINED]
        text, _ = token_text(path=row.path, qualified_name=row.qualified_name, text=row.text)
        written = encoder.literal_terms(text)
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
        """Return the reason why the channel cannot answer, once that is known."""
        if not self._opening.done():
            return None
        error = self._opening.exception()
        if error is None:
            return None
        if isinstance(error, CodequarryError):
            return str(error) if isinstance(error, ImportError) else error.message
        return f"the sparse encoder cannot be opened ({type(error).__name__})"

    def counts(self) -> dict[str, int]:
        """Return the number of documents."""
        return {"documents": self._index.spec.documents}

    def _release(self) -> None:
        self._opening.exception()
        del self._opening, self._index

    def _ready(self) -> _OpenTerms:
        # The exception of a future is one object: it would collect the frames of every request that raises it.
        error = self._opening.exception()
        if error is not None:
            raise UnavailableError(self.problem() or "the sparse encoder cannot be opened")
        return self._opening.result()


def _open(folder: Path, spec: SpladeSpec) -> _OpenTerms:
    encoder = open_query_encoder(folder)
    if (encoder.spec.fingerprint, encoder.spec.dim) != (spec.query_encoder, spec.vocabulary):
        raise IntegrityError(
            f"the sparse encoder is {encoder.spec.fingerprint[:12]}… of {encoder.spec.dim} terms, the index was made "
            f"for {spec.query_encoder[:12]}… of {spec.vocabulary}",
            suggestion="build the bundle again",
        )
    asked = lru_cache(maxsize=_REMEMBERED)(encoder.encode_query)
    # The first run allocates and picks kernels; do that here, not in the first request.
    asked("warm up")
    return _OpenTerms(encoder, asked)


def _expansion(in_query: bool, in_code: bool) -> Expansion:
    """Name the sides (query, code, both or none) to which the model added the term."""
    if in_query:
        return "none" if in_code else "code"
    return "query" if in_code else "both"
