"""The lexical channel: fielded BM25 on tantivy, k1 = 1.2 and b = 0.75."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from codequarry.schemas.analyzer import query_terms
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.lexical import FIELD_BOOSTS, ID_FIELD, open_searcher
from codequarry.serving.arrays import members
from codequarry.serving.channels import Candidates, ranked
from codequarry.serving.deadline import Deadline

if TYPE_CHECKING:
    import tantivy

MAX_TERMS = 128
"""Distinct terms of a query that are searched; each is looked up in every field."""

_FEW = 256
"""Up to this many allowed chunks go into the query itself; beyond, reading more hits and dropping is cheaper."""

_RAREST = 3
"""Terms looked up for text search; what they leave over, further ones hardly reduce."""


class Bm25Channel:
    """BM25 over path, qualified name, name and body."""

    name = "bm25"
    source = "bm25"

    def __init__(self, searcher: tantivy.Searcher, schema: tantivy.Schema) -> None:
        self._searcher = searcher
        self._schema = schema

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map a version's ``bm25/``; raises as `open_searcher`."""
        searcher, schema = open_searcher(folder)
        return cls(searcher, schema)

    @property
    def count(self) -> int:
        """Documents in the index."""
        return self._searcher.num_docs

    def search(
        self, query: str, limit: int, *, allowed: np.ndarray | None, rerank: bool, deadline: Deadline | None = None
    ) -> Candidates:
        """See `Channel.search`; BM25 scores are exact, so ``rerank`` changes nothing."""
        terms = query_terms(query)
        notes = (f"bm25 searched the first {MAX_TERMS} of {len(terms)} terms",) if len(terms) > MAX_TERMS else ()
        if not terms or not self.count or (allowed is not None and not len(allowed)):
            return Candidates(np.empty(0, np.int64), np.empty(0, np.float32), notes)
        parsed = self._query(terms[:MAX_TERMS])
        if allowed is not None and len(allowed) <= _FEW:
            ids, scores = self._hits(self._restricted(parsed, allowed), len(allowed))
            return ranked(ids, scores, limit, notes)
        # The fetch grows until it holds `limit` allowed hits and every hit tied with the last of them.
        fetch = limit * 2
        while True:
            fetch = min(fetch, self.count)
            ids, scores = self._hits(parsed, fetch)
            exhausted = len(ids) < fetch or fetch == self.count
            lowest = scores[-1] if len(scores) else 0.0
            if allowed is not None:
                kept = members(ids, allowed)
                ids, scores = ids[kept], scores[kept]
            if exhausted or (len(scores) >= limit and scores[limit - 1] > lowest):
                return ranked(ids, scores, limit, notes)
            fetch *= 4

    def named(self, terms: Sequence[str], limit: int) -> np.ndarray:
        """The chunks whose definitions' names have most of these terms: at most (limit,) int64 ids, best first.

        Raises UnavailableError: the index is damaged.
        """
        import tantivy

        clauses = [
            (tantivy.Occur.Should, tantivy.Query.term_query(self._schema, "name", term, index_option="freq"))
            for term in terms
        ]
        return self._hits(tantivy.Query.boolean_query(clauses), limit)[0]

    def holding(self, terms: Sequence[str]) -> Iterator[np.ndarray]:
        """For each of the three rarest of these terms, the chunks whose text has it: (m,) int64 ids, in any order.

        Raises UnavailableError: the index is damaged.
        """
        import tantivy

        rarest = sorted(terms, key=lambda term: (self._searcher.doc_freq("body", term), term))[:_RAREST]
        for term in rarest:
            query = tantivy.Query.term_query(self._schema, "body", term, index_option="basic")
            yield self._hits(tantivy.Query.const_score_query(query, 1.0), max(self.count, 1))[0]

    def _hits(self, query: tantivy.Query, limit: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids (m,) int64 and scores (m,) float32 of the best hits, best first."""
        try:
            hits = self._searcher.search(query, limit, count=False).hits
            ids = self._searcher.fast_field_values(ID_FIELD, [address for _, address in hits])
        except BaseException as error:
            # A Rust panic over damaged bytes is no Exception: left alone it would end the whole server.
            if type(error).__name__ != "PanicException":
                raise
            raise UnavailableError("the index is damaged") from error
        # The order in which a score's parts are summed depends on the segments; the last bits must not decide a tie.
        scores = np.round(np.array([score for score, _ in hits], np.float64), 4)
        return np.array(ids, np.int64), scores.astype(np.float32)

    def _query(self, terms: list[str]) -> tantivy.Query:
        import tantivy

        clauses: list[tuple[tantivy.Occur, tantivy.Query]] = []
        for term in terms:
            for field, boost in FIELD_BOOSTS.items():
                clause = tantivy.Query.term_query(self._schema, field, term, index_option="freq")
                clauses.append((tantivy.Occur.Should, tantivy.Query.boost_query(clause, boost)))
        return tantivy.Query.boolean_query(clauses)

    def _restricted(self, parsed: tantivy.Query, allowed: np.ndarray) -> tantivy.Query:
        import tantivy

        ids = tantivy.Query.term_set_query(self._schema, ID_FIELD, allowed.tolist())
        silent = tantivy.Query.const_score_query(ids, 0.0)
        return tantivy.Query.boolean_query([(tantivy.Occur.Must, parsed), (tantivy.Occur.Must, silent)])

    def problem(self) -> str | None:
        """An open index stays usable."""
        return None

    def close(self) -> None:
        """The maps go with the last reference."""
        del self._searcher


def matched_terms(query: str, texts: list[str]) -> list[str]:
    """Terms of the query that these texts hold, in query order."""
    held = set(query_terms("\n".join(texts)))
    return [term for term in query_terms(query)[:MAX_TERMS] if term in held]
