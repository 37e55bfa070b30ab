"""The lexical channel: fielded BM25 on tantivy, k1 = 1.2 and b = 0.75.

Which terms are looked up and what the fields count depends on the class of the query: prose is searched by stems and
without stop words, identifiers and code as they are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from codequarry.schemas.analyzer import source_tokens
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.lexical import FIELDS, ID_FIELD, distinct_terms, open_searcher
from codequarry.schemas.ranking import BUILT_IN, RankingProfile
from codequarry.serving.arrays import members
from codequarry.serving.channels import Candidates, ranked
from codequarry.serving.deadline import Deadline
from codequarry.serving.query import Query, analyze_query

if TYPE_CHECKING:
    import tantivy

MAX_TERMS = 128
"""Distinct terms of a query that are searched; each is looked up in every field."""

_FEW = 256
"""Up to this many allowed chunks go into the query itself; beyond, reading more hits and dropping is cheaper."""

_PHRASE_TOKENS = range(2, 33)
"""Source tokens of a query that may stand somewhere word for word."""

_PHRASE_HITS = 50
"""Chunks that hold the words of a query in their order; of more, the phrase says nothing."""

_RAREST = 3
"""Terms looked up for text search; what they leave over, further ones hardly reduce."""


class Bm25Channel:
    """BM25 over path, qualified name, name and body."""

    name = "bm25"
    source = "bm25"

    def __init__(
        self, searcher: tantivy.Searcher, schema: tantivy.Schema, *, profile: RankingProfile = BUILT_IN
    ) -> None:
        self._searcher = searcher
        self._schema = schema
        self.profile = profile
        """What the fields count."""

    @classmethod
    def open(cls, folder: Path, profile: RankingProfile = BUILT_IN) -> Self:
        """Map a version's ``bm25/``; raises as `open_searcher`."""
        searcher, schema = open_searcher(folder)
        return cls(searcher, schema, profile=profile)

    @property
    def count(self) -> int:
        """Documents in the index."""
        return self._searcher.num_docs

    def search(
        self, query: str, limit: int, *, allowed: np.ndarray | None, rerank: bool, deadline: Deadline | None = None
    ) -> Candidates:
        """See `Channel.search`; BM25 scores are exact, so ``rerank`` changes nothing."""
        read = analyze_query(query)
        terms = read.terms
        notes = (f"bm25 searched the first {MAX_TERMS} of {len(terms)} terms",) if len(terms) > MAX_TERMS else ()
        if not terms or not self.count or (allowed is not None and not len(allowed)):
            return Candidates(np.empty(0, np.int64), np.empty(0, np.float32), notes)
        parsed = self._query(read)
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

    def completed(self, query: str, found: Candidates, chunk_ids: np.ndarray) -> Candidates:
        """An answer with chunks that others found behind it, at their own scores; those without a word of it stay out.

        query, found: what was asked, and what `search` answered. chunk_ids: (m,) int64.

        Raises UnavailableError: the index is damaged.
        """
        missing = np.setdiff1d(chunk_ids, found.chunk_ids)
        if not len(missing):
            return found
        restricted = self._restricted(self._query(analyze_query(query)), missing)
        more = ranked(*self._hits(restricted, len(missing)), len(missing))
        return replace(
            found,
            chunk_ids=np.concatenate([found.chunk_ids, more.chunk_ids]),
            scores=np.concatenate([found.scores, more.scores]),
        )

    def holding_phrase(self, query: str) -> np.ndarray:
        """Chunks whose text has the query's words one after the other: (m,) int64 ids, sorted; none when many do.

        Raises UnavailableError: the index is damaged.
        """
        import tantivy

        tokens = [token.lower() for token in source_tokens(query)]
        words = [token for token in tokens if token[0].isalnum() or token[0] == "_"]
        if len(tokens) not in _PHRASE_TOKENS or len(words) < 2:
            return np.empty(0, np.int64)
        found = self._hits(tantivy.Query.phrase_query(self._schema, "body", list(tokens)), _PHRASE_HITS + 1)[0]
        return np.sort(found) if len(found) <= _PHRASE_HITS else np.empty(0, np.int64)

    def named(self, terms: Sequence[str], limit: int, *, allowed: np.ndarray | None = None) -> np.ndarray:
        """The chunks whose definitions' names have most of these terms: at most (limit,) int64 ids, best first.

        allowed: (m,) int64, sorted: only these chunks may be returned; None for all.

        Raises UnavailableError: the index is damaged.
        """
        import tantivy

        clauses = [
            (tantivy.Occur.Should, tantivy.Query.term_query(self._schema, "name", term, index_option="freq"))
            for term in terms
        ]
        query = tantivy.Query.boolean_query(clauses)
        if allowed is None:
            return self._hits(query, limit)[0]
        if len(allowed) <= _FEW:
            return self._hits(self._restricted(query, allowed), limit)[0]
        fetch = limit
        while True:
            fetch = min(4 * fetch, self.count)
            ids = self._hits(query, fetch)[0]
            kept = ids[members(ids, allowed)]
            if len(kept) >= limit or len(ids) < fetch or fetch == self.count:
                return kept[:limit]

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

    def _query(self, query: Query) -> tantivy.Query:
        import tantivy

        kind = self.profile.classes[query.kind]
        boosts = dict(zip(FIELDS, (kind.path_field, kind.name_field, 1.0), strict=True))
        clauses: list[tuple[tantivy.Occur, tantivy.Query]] = []
        for term in query.terms[:MAX_TERMS]:
            for field, boost in boosts.items():
                if boost:
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
    held = distinct_terms("\n".join(texts))
    return [term for term in analyze_query(query).terms[:MAX_TERMS] if term in held]
