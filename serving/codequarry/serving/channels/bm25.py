"""Lexical channel: fielded BM25 on tantivy, k1 = 1.2 and b = 0.75.

The class of the query decides which terms are looked up and how fields are weighted: prose is searched by stems and
without stop words, identifiers and code as they are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.ranking_profile import BUILT_IN, RankingProfile
from codequarry.serving.catalog.filters import members
from codequarry.serving.channels.base import (
    NOTHING,
    NOTHING_HIDDEN,
    Candidates,
    Channel,
    ChannelQuery,
    Hidden,
    TermStatistics,
    ranked,
)
from codequarry.serving.text.analyzer import Fragment, source_tokens
from codequarry.serving.text.lexical import BODY_FIELD, FIELDS, ID_FIELD, distinct_terms, open_searcher
from codequarry.serving.text.query_classes import Query, is_compound
from codequarry.serving.text.stems import stem
from codequarry.serving.text.term_list import TermList

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

_NEAR_HITS = 200
"""Most chunks whose names are looked at for a misspelt word."""

_RAREST = 3
"""Parts of words looked up for text search; further ones hardly reduce the result."""

_MOST_TERMS = 8_192
"""Most terms with a part of a word that are looked up, some .1 s at 474,000 chunks."""

_MANY, _MOST_SHARE = 1_024, 0.25
"""Number and share of chunks: a part of a word that more of them have excludes too few to be worth its look-up."""


class _BestHits(NamedTuple):
    """Best hits of a query, best first."""

    ids: np.ndarray
    """(m,) int64."""
    scores: np.ndarray
    """(m,) float32."""
    lowest: float
    """Score of the last hit, whether it counts or not."""
    all: bool
    """True when there are no others."""

    def of(self, over: Hidden) -> _BestHits:
        """Return the hits that count, each chunk once."""
        kept = ~members(self.ids, over.ids)
        ids, scores = self.ids[kept], self.scores[kept]
        if len(over.doubled) and members(ids, over.doubled).any():
            first = np.sort(np.unique(ids, return_index=True)[1])
            ids, scores = ids[first], scores[first]
        return self._replace(ids=ids, scores=scores)


class Bm25Channel(Channel):
    """BM25 over path, qualified name, name and body. Its scores are exact."""

    name = "bm25"
    source = "bm25"

    def __init__(
        self,
        searcher: tantivy.Searcher,
        schema: tantivy.Schema,
        *,
        folders: tuple[Path, ...] = (),
        profile: RankingProfile = BUILT_IN,
        over: Hidden = NOTHING_HIDDEN,
    ) -> None:
        self._searcher = searcher
        self._folders = folders
        self._schema = schema
        self._over = over
        self.profile = profile
        """Weights of the fields."""

    @classmethod
    def open(cls, *folders: Path, profile: RankingProfile = BUILT_IN, over: Hidden = NOTHING_HIDDEN) -> Self:
        """Map a version's ``bm25/``, or that of a base and of the delta over it; raises as `open_searcher`.

        Args:
            *folders: Folders of the index.
            profile: Ranking profile of the version.
            over: Documents of the base that count no longer.

        Returns:
            The open channel.
        """
        searcher, schema = open_searcher(*folders)
        return cls(searcher, schema, folders=folders, profile=profile, over=over)

    @property
    def count(self) -> int:
        """Number of documents in the index."""
        return self._searcher.num_docs

    def counts(self) -> dict[str, int]:
        """Return the number of documents that count."""
        return {"documents": self.count - self._over.rows}

    def _rank(self, asked: ChannelQuery) -> Candidates:
        terms, allowed, limit = asked.query.terms, asked.allowed, asked.limit
        notes = (f"bm25 searched the first {MAX_TERMS} of {len(terms)} terms",) if len(terms) > MAX_TERMS else ()
        if not terms or not self.count or (allowed is not None and not len(allowed)):
            return replace(NOTHING, notes=notes)
        parsed = self._query(asked)
        if allowed is not None and len(allowed) <= _FEW:
            return ranked(*self._among(parsed, allowed), limit, notes)
        # The fetch grows until it holds `limit` allowed hits and every hit tied with the last of them.
        fetch = limit * 2
        while True:
            fetch = min(fetch, self.count)
            hits = self._hits(parsed, fetch)
            ids, scores = hits.ids, hits.scores
            if allowed is not None:
                kept = members(ids, allowed)
                ids, scores = ids[kept], scores[kept]
            if hits.all or fetch == self.count or (len(scores) >= limit and scores[limit - 1] > hits.lowest):
                return ranked(ids, scores, limit, notes)
            fetch *= 4

    def statistics(self, query: Query) -> TermStatistics:
        """Count the documents that hold the terms which are looked up for a query."""
        terms = query.terms[:MAX_TERMS]
        return TermStatistics(
            self.count,
            {(field, term): self._searcher.doc_freq(field, term) for field in FIELDS for term in terms},
        )

    def best_score(self, asked: ChannelQuery) -> float:
        """Return the score of the best chunk for a query, whether it is allowed or not; 0.0 when none has a term.

        Args:
            asked: What is asked.

        Returns:
            The score.

        Raises:
            UnavailableError: The index is damaged.
        """
        if not asked.query.terms or not self.count:
            return 0.0
        return float(self._hits(self._query(asked), 1 + self._over.rows).scores.max(initial=0.0))

    def complete(self, asked: ChannelQuery, found: Candidates, chunk_ids: np.ndarray) -> Candidates:
        """Append chunks that other channels found to an answer, with their own BM25 scores.

        Args:
            asked: What was asked.
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
        more = ranked(*self._among(self._query(asked), missing), len(missing))
        return replace(
            found,
            chunk_ids=np.concatenate([found.chunk_ids, more.chunk_ids]),
            scores=np.concatenate([found.scores, more.scores]),
        )

    def holding_phrase(self, query: Query) -> np.ndarray:
        """Find chunks whose text has the query's words one after the other, or its only identifier as a whole.

        Args:
            query: Query of the request.

        Returns:
            (m,) int64 ids, sorted; none when many chunks match, or for a single word that is no compound.

        Raises:
            UnavailableError: The index is damaged.
        """
        import tantivy

        tokens = [token.lower() for token in source_tokens(query.text)]
        words = [token for token in tokens if token[0].isalnum() or token[0] == "_"]
        if is_compound(query):
            phrase = tantivy.Query.term_query(self._schema, BODY_FIELD, tokens[0], index_option="basic")
        elif len(tokens) in _PHRASE_TOKENS and len(words) > 1:
            phrase = tantivy.Query.phrase_query(self._schema, BODY_FIELD, list(tokens))
        else:
            return np.empty(0, np.int64)
        found = self._hits(phrase, _PHRASE_HITS + 1 + self._over.rows).ids
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
        if allowed is not None and len(allowed) <= _FEW:
            return self._among(query, allowed)[0][:limit]
        fetch = limit if allowed is None else min(4 * limit, self.count)
        while True:
            hits = self._hits(query, fetch)
            kept = hits.ids if allowed is None else hits.ids[members(hits.ids, allowed)]
            if len(kept) >= limit or hits.all or fetch >= self.count:
                return kept[:limit]
            fetch = min(4 * fetch, self.count)

    def has_word(self, word: str) -> bool:
        """Return whether a path, name or text has a word or its stem.

        Args:
            word: Word in lower case.

        Returns:
            True if a document of the index has it, even one that no longer counts.
        """
        return any(self._searcher.doc_freq(field, term) for field in FIELDS for term in {word, stem(word)})

    def holding_near_name(self, word: str) -> np.ndarray:
        """Find chunks whose definitions' names have a word that differs from this one by at most one letter.

        Args:
            word: Word in lower case.

        Returns:
            (m,) int64 ids; of many, some.

        Raises:
            UnavailableError: The index is damaged.
        """
        import tantivy

        return self._hits(tantivy.Query.fuzzy_term_query(self._schema, "name", word), _NEAR_HITS).ids

    def holding(self, fragments: Iterable[Fragment]) -> Iterator[np.ndarray]:
        """Find the chunks whose text has one of the three rarest of these parts of words.

        Parts that many chunks have are passed over.

        Args:
            fragments: Parts of words of the text.

        Yields:
            For each of the three, (m,) int64 ids in any order, the rarest first.

        Raises:
            UnavailableError: The index is damaged.
        """
        import tantivy

        wanted = [terms for fragment in fragments if (terms := self._terms_of(fragment)) is not None]
        counted = sorted((sum(self._searcher.doc_freq(BODY_FIELD, term) for term in terms), terms) for terms in wanted)
        for count, terms in counted[:_RAREST]:
            if count > max(_MANY, self.count * _MOST_SHARE):
                return
            clauses = [
                (tantivy.Occur.Should, tantivy.Query.term_query(self._schema, BODY_FIELD, term, index_option="basic"))
                for term in terms
            ]
            query = tantivy.Query.const_score_query(tantivy.Query.boolean_query(clauses), 1.0)
            yield self._hits(query, max(self.count, 1)).ids

    def _terms_of(self, fragment: Fragment) -> list[str] | None:
        """Return the terms of words that hold a fragment; None for too many, or where they are not listed."""
        if fragment.starts and fragment.ends:
            return [fragment.text]
        found = dict[str, None]()
        for folder in self._folders:
            listed = TermList.open(folder)
            terms = None if listed is None else listed.holding(fragment, _MOST_TERMS)
            if terms is None:
                return None
            found.update(dict.fromkeys(terms))
        return list(found)

    def rarity(self, asked: ChannelQuery) -> dict[str, float]:
        """Return the terms that are looked up for a query, with their inverse document frequencies.

        A term counts as frequent as in the field that has it most often.
        """
        known = asked.statistics or self.statistics(asked.query)
        return {term: min(known.rarity(field, term) for field in FIELDS) for term in asked.query.terms[:MAX_TERMS]}

    def _among(self, query: tantivy.Query, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ids and scores of all hits among these chunks, like `_BestHits`."""
        hits = self._hits(self._restricted(query, allowed), max(1, len(allowed) + len(self._over.doubled)))
        return hits.ids, hits.scores

    def _hits(self, query: tantivy.Query, limit: int) -> _BestHits:
        """Return the best hits among the documents that count."""
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
        found = _BestHits(
            np.array(ids, np.int64),
            scores.astype(np.float32),
            float(np.float32(scores[-1])) if len(scores) else 0.0,
            all=len(hits) < limit,
        )
        return found if self._over is NOTHING_HIDDEN else found.of(self._over)

    def _query(self, asked: ChannelQuery) -> tantivy.Query:
        import tantivy

        query = asked.query
        own = None if asked.statistics is None else self.statistics(query)
        kind = self.profile.classes[query.kind]
        boosts = dict(zip(FIELDS, (kind.path_field, kind.name_field, 1.0), strict=True))
        clauses: list[tuple[tantivy.Occur, tantivy.Query]] = []
        for term in query.terms[:MAX_TERMS]:
            for field, boost in boosts.items():
                if boost and own is not None and asked.statistics is not None:
                    boost *= asked.statistics.rarity(field, term) / own.rarity(field, term)
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
