"""Lexical channel: fielded BM25 on tantivy, k1 = 1.2 and b = 0.75.

The class of the query decides which terms are looked up and how fields are weighted: prose is searched by stems and
without stop words, identifiers and code as they are written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.ranking_profile import BUILT_IN, RankingProfile
from codequarry.serving.catalog.filters import members
from codequarry.serving.channels.base import NOTHING, Candidates, Channel, ChannelQuery, ranked
from codequarry.serving.text.analyzer import source_tokens
from codequarry.serving.text.lexical import FIELDS, ID_FIELD, distinct_terms, open_searcher
from codequarry.serving.text.query_classes import Query

if TYPE_CHECKING:
    import tantivy

MAX_TERMS = 128
"""Distinct terms of a query that are searched; each is looked up in every field."""

_FEW = 256
"""Up to this many allowed chunks go into the query itself; beyond, reading more hits and dropping is cheaper."""

_PHRASE_TOKENS = range(2, 33)
"""Number of source tokens of a query that is looked up as a phrase."""

_PHRASE_HITS = 50
"""Most chunks with a phrase; a phrase that is more frequent carries no information."""

_RAREST = 3
"""Terms looked up for text search; further ones hardly reduce the result."""


class Bm25Channel(Channel):
    """BM25 over path, qualified name, name and body. Its scores are exact."""

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
        """Number of documents in the index."""
        return self._searcher.num_docs

    def counts(self) -> dict[str, int]:
        """Return the number of documents."""
        return {"documents": self.count}

    def _rank(self, asked: ChannelQuery) -> Candidates:
        terms, allowed, limit = asked.query.terms, asked.allowed, asked.limit
        notes = (f"bm25 searched the first {MAX_TERMS} of {len(terms)} terms",) if len(terms) > MAX_TERMS else ()
        if not terms or not self.count or (allowed is not None and not len(allowed)):
            return replace(NOTHING, notes=notes)
        parsed = self._query(asked.query)
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

    def complete(self, query: Query, found: Candidates, chunk_ids: np.ndarray) -> Candidates:
        """Append chunks that other channels found to an answer, with their own BM25 scores.

        Args:
            query: Query of the request.
            found: Answer of `search` to it.
            chunk_ids: (m,) int64: chunks to append; those without a word of the query are left out.

        Returns:
            The longer answer.

        Raises:
            UnavailableError: The index is damaged.
        """
        missing = np.setdiff1d(chunk_ids, found.chunk_ids)
        if not len(missing):
            return found
        restricted = self._restricted(self._query(query), missing)
        more = ranked(*self._hits(restricted, len(missing)), len(missing))
        return replace(
            found,
            chunk_ids=np.concatenate([found.chunk_ids, more.chunk_ids]),
            scores=np.concatenate([found.scores, more.scores]),
        )

    def holding_phrase(self, query: Query) -> np.ndarray:
        """Find chunks whose text has the query's words one after the other.

        Args:
            query: Query of the request.

        Returns:
            (m,) int64 ids, sorted; none when many chunks match.

        Raises:
            UnavailableError: The index is damaged.
        """
        import tantivy

        tokens = [token.lower() for token in source_tokens(query.text)]
        words = [token for token in tokens if token[0].isalnum() or token[0] == "_"]
        if len(tokens) not in _PHRASE_TOKENS or len(words) < 2:
            return np.empty(0, np.int64)
        found = self._hits(tantivy.Query.phrase_query(self._schema, "body", list(tokens)), _PHRASE_HITS + 1)[0]
        return np.sort(found) if len(found) <= _PHRASE_HITS else np.empty(0, np.int64)

    def holding_name_words(self, terms: Sequence[str], limit: int, *, allowed: np.ndarray | None = None) -> np.ndarray:
        """Find the chunks whose definitions' names have most of these terms.

        Args:
            terms: Words of names.
            limit: Most chunks to return.
            allowed: (m,) int64, sorted: only these chunks may be returned; None for all.

        Returns:
            At most (limit,) int64 ids, best first.

        Raises:
            UnavailableError: The index is damaged.
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
        """Find the chunks whose text has one of the three rarest of these terms.

        Args:
            terms: Terms of the text field.

        Yields:
            For each of the three terms, (m,) int64 ids in any order.

        Raises:
            UnavailableError: The index is damaged.
        """
        import tantivy

        rarest = sorted(terms, key=lambda term: (self._searcher.doc_freq("body", term), term))[:_RAREST]
        for term in rarest:
            query = tantivy.Query.term_query(self._schema, "body", term, index_option="basic")
            yield self._hits(tantivy.Query.const_score_query(query, 1.0), max(self.count, 1))[0]

    def rarity(self, query: Query) -> dict[str, float]:
        """Return the terms that are looked up for a query, with their inverse document frequencies.

        A term counts as frequent as in the field that has it most often.
        """
        return {
            term: math.log1p((self.count - frequency + 0.5) / (frequency + 0.5))
            for term in query.terms[:MAX_TERMS]
            for frequency in [max(self._searcher.doc_freq(field, term) for field in FIELDS)]
        }

    def _hits(self, query: tantivy.Query, limit: int) -> tuple[np.ndarray, np.ndarray]:
        """Return ids (m,) int64 and scores (m,) float32 of the best hits, best first."""
        try:
            hits = self._searcher.search(query, limit, count=False).hits
            ids = self._searcher.fast_field_values(ID_FIELD, [address for _, address in hits])
        except BaseException as error:
            # A Rust panic over damaged bytes is not an Exception: uncaught, it would end the whole server.
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

    def _release(self) -> None:
        del self._searcher  # with its last reference, the maps go


def matched_terms(query: Query, texts: list[str]) -> list[str]:
    """Return the query terms that these texts contain, in query order."""
    held = distinct_terms("\n".join(texts))
    return [term for term in query.terms[:MAX_TERMS] if term in held]
