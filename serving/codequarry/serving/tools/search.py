"""Search: check, choose versions, ask their channels, rank, look up, explain."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from codequarry.schemas.errors import DeadlineError, EndpointError, ReplicaError
from codequarry.schemas.settings.load import ServingSettings
from codequarry.schemas.wire.search import (
    MAX_QUERY_CHARS,
    TOP_K_MAX,
    TOP_K_MIN,
    WITH_CODE,
    BundleInfo,
    Match,
    SearchAnswer,
    SearchRequest,
    SearchResult,
)
from codequarry.serving.catalog.catalog import ChunkRow
from codequarry.serving.channels.base import Candidates, TermStatistics
from codequarry.serving.channels.symbol import NAMED
from codequarry.serving.ranking.confidence import MatchStrength, match_strength
from codequarry.serving.ranking.duplicates import SPARE, keep_distinct
from codequarry.serving.ranking.late import LATE, Decision, decide
from codequarry.serving.ranking.promising import most_promising
from codequarry.serving.ranking.ranking import CommonScale, Placed, merge_rankings
from codequarry.serving.ranking.rerank import Reranker, candidate_of, dealt
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.request.parallel import RunTasks, run_in_turn
from codequarry.serving.request.trace import saw_degraded, saw_gate, stage
from codequarry.serving.text.arguments import checked_text, clamp_argument
from codequarry.serving.text.query_classes import NAMES, Query, analyze_query
from codequarry.serving.tools.budgets import briefer_result, fit_budget, shorter_result
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.tools.scopes import scoped
from codequarry.serving.tools.version_search import Gathered, OpenVersions, SearchedVersions

logger = logging.getLogger(__name__)

T = TypeVar("T")

WEAK_MATCH = (
    "weak match: the index probably holds no answer, and these places are the nearest; use other words, or the exact "
    "text with search_code"
)
"""Note of an answer whose confidence is low."""
_OF_WEAK = 5
"""Results of a weak match."""
_BESIDE_DEFINITION = 2
"""Results beside the definitions of a name that is the whole query."""


@dataclass(frozen=True, slots=True)
class SearchTerms:
    """Everything beside request and versions on which a search depends."""

    settings: ServingSettings
    deadline: Deadline
    reranker: Reranker | None
    """Language model that orders the first results; None for the order of the fusion."""
    info: BundleInfo
    """Version that the answer speaks for."""
    most: int = 0
    """Most versions that are asked, the most promising ones; 0 for all."""
    run: RunTasks = run_in_turn
    """Asks several places."""

    @classmethod
    def of(cls, context: ToolContext) -> SearchTerms:
        """Return the terms of a search in one version."""
        return cls(context.settings, context.deadline, context.reranker, context.bundle.info)


def search(context: ToolContext, request: SearchRequest) -> SearchAnswer:
    """Answer the tool ``search``; raises as `find_results`.

    Args:
        context: Version, settings and deadline.
        request: Query, filters and options.

    Returns:
        Results, best first, within the budget of the request.
    """
    return search_places([open_search([(context, request)])], request, SearchTerms.of(context))


def open_search(asked: Sequence[tuple[ToolContext, SearchRequest]]) -> OpenVersions:
    """Return the versions that the tool ``search`` asks, each with the request to it."""
    return OpenVersions([(context, scoped(own)) for context, own in asked])


def search_places(places: Sequence[SearchedVersions], request: SearchRequest, terms: SearchTerms) -> SearchAnswer:
    """Answer the tool ``search`` from versions of several places as if they were one.

    Args:
        places: See `find_in_places`.
        request: Query and options.
        terms: See `find_in_places`.

    Returns:
        Results, best first, within the budget of the request. Raises as `find_results`.
    """
    if not terms.settings.reranker_always:
        terms = replace(terms, reranker=None)
    answer = find_in_places(places, request, terms)
    briefer = briefer_result if request.explain else None
    results, notes = fit_budget(answer.results, request.max_tokens, shorter_result, briefer)
    return answer.model_copy(update={"results": results, "limits": [*answer.limits, *notes]})


def find_results(
    context: ToolContext, request: SearchRequest, *, weights: Mapping[str, float] | None = None
) -> SearchAnswer:
    """Search one version.

    Args:
        context: Version, settings and deadline; its reranker, if any, orders the first results.
        request: Query, filters and options; its ``explain`` decides how much is worked out about each result.
        weights: Multipliers of the profile's channel weights, instead of the settings'; 0 leaves a channel out.

    Returns:
        Results, best first.

    Raises:
        InvalidArgumentError: The query or the filters cannot be used.
        DeadlineError: No channel answered in time.
    """
    return find_in_places([OpenVersions([(context, request)], weights=weights)], request, SearchTerms.of(context))


def find_in_places(places: Sequence[SearchedVersions], request: SearchRequest, terms: SearchTerms) -> SearchAnswer:
    """Search versions of several places as if they were one: scores of all are on one scale.

    Args:
        places: The versions; at least one.
        request: Query and options.
        terms: Settings and deadline.

    Returns:
        Results, best first. Raises as `find_results`.
    """
    return find_with_stages(places, request, terms)[0]


def find_with_stages(
    places: Sequence[SearchedVersions], request: SearchRequest, terms: SearchTerms
) -> tuple[SearchAnswer, list[str]]:
    """Search as `find_in_places` does, and return also the notes about stages that versions lack."""
    text = checked_text(
        "query",
        request.query,
        longest=MAX_QUERY_CHARS,
        suggestion="send the beginning of an issue, or the words that name what you look for",
    )
    top_k, limits = clamp_argument("top_k", request.top_k, TOP_K_MIN, TOP_K_MAX)
    found = _PlacesSearch(places, request, terms, analyze_query(text), top_k).find()
    sure = {} if found.match is None or not request.explain else {"match": _explained_match(found.match)}
    # Channels off may be reported by the bundle and again by the channel itself.
    answer = SearchAnswer(
        results=found.results,
        queryEcho=text,
        top_k=top_k,
        limits=list(dict.fromkeys([*limits, *found.notes])),
        bundle=terms.info,
        candidates=found.candidates,
        **sure,
    )
    return answer, found.stages


@dataclass(frozen=True, slots=True)
class _Found:
    """Outcome of a search."""

    results: list[SearchResult]
    """Best first."""
    candidates: int
    """Chunks that any channel found."""
    notes: list[str]
    """For the caller."""
    match: MatchStrength | None
    """None where confidence is unknown: nothing was found, one channel was asked, or the lexical index is off."""
    stages: list[str]
    """Notes about stages that versions lack."""


class _PlacesSearch:
    """One search in versions of several places. The version of a chunk is numbered through all places."""

    def __init__(
        self,
        places: Sequence[SearchedVersions],
        request: SearchRequest,
        terms: SearchTerms,
        query: Query,
        top_k: int,
    ) -> None:
        self._places = dict(enumerate(places))
        self._first = np.cumsum([0, *(place.count for place in places)]).tolist()
        """Number of the first version of each place."""
        self._request, self._terms, self._query, self._top_k = request, terms, query, top_k
        self._count: int = self._first[-1]
        self._gathered: dict[int, Gathered] = {}
        self._notes: list[str] = []

    def find(self) -> _Found:
        """Search; raises as `find_results`."""
        total, chosen = self._choose()
        self._gather(total, chosen)
        gathered = list(self._gathered.values())
        limits = [note for one in gathered for note in one.limits]
        stages = list(dict.fromkeys(note for one in gathered for note in one.stages))
        notes = [*limits, *(note for one in gathered for note in one.notes), *self._out_of_time()]
        if len(chosen) < self._count:
            self._notes.append(
                f"{len(chosen)} of {self._count} bundles were asked, those whose words and files fit best; name "
                "repositories in filters.repos to ask others"
            )
        if not any(one.answered for one in gathered):
            return _Found([], 0, [*notes, *self._notes], None, stages)
        reranker = self._terms.reranker
        wanted = self._top_k if reranker is None else max(self._top_k, reranker.candidates)
        order, more = self._order(wanted + SPARE)
        notes += more
        with stage("hydration"):
            known = self._rows(order)
            best = {one.chunk_id: one for one in reversed(order) if self._place_of(one.version) in self._places}
            ids = dict.fromkeys(one.chunk_id for one in order if one.chunk_id in best)
            rows, more = keep_distinct(list(ids), known, wanted)
        notes += more
        shown = [(best[row.chunk_id], row) for row in rows]
        if reranker is not None:
            shown, more = _rerank(self._query, reranker, shown, self._terms.deadline)
            notes += more
        match = self._match(shown)
        weak = match is not None and match.weak and not _defines(shown)
        if weak:
            notes.append(WEAK_MATCH)
        with stage("hydration"):
            worth = [one for one, _ in self._worth_showing(shown, weak=weak)]
            results = self._build(worth, code=not weak)
        candidates = sum(one.count for one in self._gathered.values())
        return _Found(results, candidates, [*notes, *self._notes], match, stages)

    def _place_of(self, version: int) -> int:
        return int(np.searchsorted(self._first, version, side="right")) - 1

    def _ask(self, step: Callable[[SearchedVersions, int], T]) -> dict[int, T]:
        """Ask all places at once; one that is lost is left out from then on, and its caller says so.

        Args:
            step: Asks a place, and gets the number of its first version.

        Returns:
            What each place answered, by its number.
        """

        def ask_place(number: int, place: SearchedVersions) -> T | None:
            try:
                return step(place, self._first[number])
            except ReplicaError:
                return None

        tasks = [(lambda each=each: ask_place(*each)) for each in self._places.items()]
        replies = dict(zip(list(self._places), self._terms.run(tasks), strict=True))
        found = {number: reply for number, reply in replies.items() if reply is not None}
        self._places = {number: place for number, place in self._places.items() if number in found}
        self._gathered = {
            version: one for version, one in self._gathered.items() if self._place_of(version) in self._places
        }
        return found

    def _choose(self) -> tuple[TermStatistics | None, list[int]]:
        """Choose the versions to ask; returns the statistics of these together, and their numbers."""
        if self._count == 1:
            return None, [0]
        most = self._terms.most
        few = bool(most) and self._count > most and bool(self._query.text.strip())
        measured = {
            first + number: one
            for place, each in self._ask(lambda place, _: place.measure(nearness=few)).items()
            for first in [self._first[place]]
            for number, one in enumerate(each)
        }
        versions = list(measured)
        if few and len(versions) > most:

            def best_scores(total: TermStatistics, asked: Sequence[int]) -> list[float]:
                places = {place: self._own(place, [versions[at] for at in asked]) for place in self._places}
                found = self._ask(
                    lambda place, first: place.best_scores(total, own) if (own := places[self._place_of(first)]) else []
                )
                scores = {
                    self._first[place] + number: score
                    for place, each in found.items()
                    for number, score in zip(places[place], each, strict=True)
                }
                return [scores.get(versions[at], 0.0) for at in asked]

            chosen = most_promising(list(measured.values()), most, best_scores)
            versions = [versions[at] for at in chosen]
        lexical = [one for version in versions if (one := measured[version].statistics) is not None]
        return TermStatistics.total(lexical) if lexical else None, versions

    def _own(self, place: int, versions: Sequence[int]) -> list[int]:
        """Return the versions of a place, in its own numbers."""
        return [version - self._first[place] for version in versions if self._place_of(version) == place]

    def _gather(self, total: TermStatistics | None, versions: Sequence[int]) -> None:
        own = {place: self._own(place, versions) for place in self._places}
        self._places = {place: one for place, one in self._places.items() if own[place]}
        alone = self._count == 1
        replies = self._ask(lambda place, first: place.gather(total, own[self._place_of(first)], alone=alone))
        for place, each in replies.items():
            for number, one in zip(own[place], each, strict=True):
                self._gathered[self._first[place] + number] = one

    def _out_of_time(self) -> list[str]:
        """Describe the versions that did not answer in time.

        Returns:
            A note, or none.

        Raises:
            DeadlineError: No other one answered.
        """
        late = [one.late for one in self._gathered.values() if one.late]
        if not late:
            return []
        if not any(one.answered for one in self._gathered.values()):
            raise DeadlineError(late[0], suggestion="call again, or ask a single channel")
        return [f"{len(late)} of {len(self._gathered)} bundles are missing in this answer: {late[0]}"]

    def _order(self, limit: int) -> tuple[list[Placed], list[str]]:
        """Rank the candidates of all versions, and let late interaction see the first of them.

        Args:
            limit: Most chunks to return.

        Returns:
            Chunks, best first, and notes for the caller.
        """
        rescores = any(one.rescores for one in self._gathered.values())
        rescored = self._terms.settings.late_rescored if rescores else 0
        merged = self._rank(max(limit, rescored))
        if not rescores:
            return merged[:limit], []
        decision = self._decide_late(merged)
        notes, again = list[str](), False
        for place, replies in self._ask(lambda place, _: place.interact(decision)).items():
            sides = [one for one in self._own(place, list(self._gathered)) if self._at(place, one).answered]
            for number, reply in zip(sides, replies, strict=True):
                notes += reply.notes
                known = self._at(place, number)
                if reply.scores is not None:
                    again = True
                    scale = known.scale
                    if scale is not None:
                        scale = replace(scale, scores={**scale.scores, LATE: reply.scores})
                    known = replace(known, scale=scale, count=reply.count)
                self._gathered[self._first[place] + number] = known
        return (self._rank(limit) if again else merged)[:limit], notes

    def _at(self, place: int, number: int) -> Gathered:
        return self._gathered[self._first[place] + number]

    def _rank(self, limit: int) -> list[Placed]:
        parts = [one.scale for one in self._gathered.values() if one.scale is not None]
        common = CommonScale.total(parts) if parts else None
        rankings: list[list[Placed]] = []
        for place, each in self._ask(lambda place, _: place.rank(common, limit)).items():
            first = self._first[place]
            rankings += each if not first else [[one.shift(first) for one in ranking] for ranking in each]
        return merge_rankings(rankings) if rankings else []

    def _decide_late(self, merged: Sequence[Placed]) -> Decision:
        """Decide once for all versions whether late interaction looks at the order: scores with and without differ."""
        deadline = self._terms.deadline.within(self._terms.settings.stage2_budget_ms)
        decisions = [
            decide(merged, _best_alone(one.nearest), deadline, self._terms.settings)
            for one in self._gathered.values()
            if one.answered
        ]
        return next((one for one in decisions if one.runs), decisions[0])

    def _rows(self, order: Sequence[Placed]) -> dict[int, ChunkRow]:
        best: dict[int, Placed] = {}
        for one in order:
            best.setdefault(one.chunk_id, one)
        parts = self._parts(list(best.values()))
        rows = self._ask(lambda place, first: place.rows(own) if (own := parts[first]) else [])
        return {row.chunk_id: row for each in rows.values() for row in each}

    def _parts(self, chunks: Sequence[Placed]) -> dict[int, list[Placed]]:
        """Divide chunks among the places: by the first version of each, with its own numbers of versions."""
        parts: dict[int, list[Placed]] = {self._first[place]: [] for place in self._places}
        for one in chunks:
            first = self._first[self._place_of(one.version)]
            if first in parts:
                parts[first].append(one.shift(-first) if first else one)
        return parts

    def _build(self, shown: Sequence[Placed], *, code: bool) -> list[SearchResult]:
        # Only the first results show code, wherever they come from.
        first, rest = self._parts(shown[:WITH_CODE]), self._parts(shown[WITH_CODE:])
        results: dict[str, SearchResult] = {}
        # A place without results is asked too: it is the last step, after which a place forgets the search.
        for each in self._ask(lambda place, at: place.build(first[at], rest[at], code=code)).values():
            results |= {one.id: one for one in each}
        return [results[str(one.chunk_id)] for one in shown if str(one.chunk_id) in results]

    def _match(self, shown: Sequence[tuple[Placed, ChunkRow]]) -> MatchStrength | None:
        """Return the strongest match of the versions; None where confidence is unknown."""
        strengths: list[MatchStrength] = []
        for version, one in self._gathered.items():
            rows = [row for placed, row in shown if placed.version == version]
            if rows and one.rarity is not None:
                strengths.append(match_strength(rows, one.rarity, one.similarity, whole=self._request.explain))
        return max(strengths, key=lambda one: one.confidence, default=None)

    def _worth_showing(self, shown: Sequence[tuple[Placed, ChunkRow]], *, weak: bool) -> list[tuple[Placed, ChunkRow]]:
        """Select the results of an answer; a caller that asked for a number of them gets that number.

        Args:
            shown: Score and chunk of each result, best first.
            weak: Whether the index probably holds no answer.

        Returns:
            The first results: few of a weak match, and those that define a name with few others when it is the query.
        """
        first = list(shown[: self._top_k])
        if "top_k" in self._request.model_fields_set:
            return first
        if weak:
            return first[:_OF_WEAK]
        if self._query.kind in NAMES and (defining := _defines(first)):
            others = [place for place in range(len(first)) if place not in defining][:_BESIDE_DEFINITION]
            return [first[place] for place in sorted((*defining, *others))]
        return first


def _best_alone(nearest: Mapping[str, float | None]) -> dict[str, Candidates]:
    """Return the best candidate of each channel, without its id."""
    return {
        name: Candidates(np.zeros(0 if score is None else 1, np.int64), np.array([] if score is None else [score]))
        for name, score in nearest.items()
    }


def _defines(shown: Sequence[tuple[Placed, ChunkRow]]) -> list[int]:
    """Return the places, from 0, of the results that define what the query names."""
    return [place for place, (one, _) in enumerate(shown) if one.name >= NAMED]


def _explained_match(match: MatchStrength) -> Match:
    known = {} if match.similarity is None else {"similarity": match.similarity}
    return Match(confidence=match.confidence, coverage=match.coverage, terms=match.terms, **known)


def _rerank(
    query: Query, reranker: Reranker, shown: list[tuple[Placed, ChunkRow]], deadline: Deadline
) -> tuple[list[tuple[Placed, ChunkRow]], list[str]]:
    """Order results by a language model; if it fails, return them unchanged and a note with the reason."""
    first = [candidate_of(row) for _, row in shown[: reranker.candidates]]
    try:
        with stage("rerank"):
            order = reranker.order(query.text, first, deadline)
        saw_gate("rerank", "done")
    except Exception as error:  # whatever breaks in it must not take the results away
        why = "it failed, and the server's log says why"
        if isinstance(error, EndpointError):
            why = error.message
        else:
            logger.exception("reranking failed")
        saw_degraded("rerank")
        saw_gate("rerank", "failed")
        return shown, [f"the language model did not rerank: {why}; the order is that of the fusion"]
    rows = {row.chunk_id: row for _, row in shown}
    return [(one, rows[one.chunk_id]) for one in dealt([one for one, _ in shown], order)], []
