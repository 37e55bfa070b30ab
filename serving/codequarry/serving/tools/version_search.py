"""Search of versions step by step, so that versions of several places are ranked as one.

Each step takes what the others found and returns what they need to know. `tools.search` asks the steps in their order:
it does not matter to it whether the versions are open in this process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from codequarry.schemas.bundle.layout import DENSE_LEGS
from codequarry.schemas.errors import CodequarryError, DeadlineError, UnavailableError
from codequarry.schemas.wire.search import MAX_QUERY_CHARS, SearchRequest, SearchResult
from codequarry.serving.catalog.catalog import ChunkRow
from codequarry.serving.catalog.filters import allowed_chunks, fixable_chunks
from codequarry.serving.channels.base import Candidates, ChannelQuery, TermStatistics
from codequarry.serving.channels.bm25 import Bm25Channel
from codequarry.serving.channels.dense import FaissChannel
from codequarry.serving.channels.faiss_search import Effort
from codequarry.serving.channels.misspelt_words import correct_words
from codequarry.serving.ranking.duplicates import sound
from codequarry.serving.ranking.late import LATE, Decision
from codequarry.serving.ranking.promising import Measured
from codequarry.serving.ranking.ranking import CommonScale, Placed, Scored, rank, rank_alone
from codequarry.serving.request.trace import saw_degraded, saw_density, stage
from codequarry.serving.text.arguments import checked_text
from codequarry.serving.text.query_classes import Query, analyze_query
from codequarry.serving.tools.channel_answers import (
    Answers,
    SearchPlan,
    ask_channels,
    complete_names,
    find_phrases,
    interact_late,
    weigh_channels,
)
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.tools.explanations import ExplainedRanking, build_results
from codequarry.serving.version.open import Bundle

_READ_AS_ISSUE = (
    "the query was read as an issue, and tests, examples, documentation and vendored files are left out; ask for their "
    "paths with filters.include to have them"
)


@dataclass(frozen=True, slots=True)
class Gathered:
    """Candidates of a version, as far as others need to know them."""

    limits: list[str]
    """Notes about filters, and about channels that are off."""
    notes: list[str]
    """Notes about this search."""
    stages: list[str] = field(default_factory=list[str])
    """Notes about stages that the version lacks."""
    late: str = ""
    """Message of the deadline, where no channel answered in time."""
    answered: bool = False
    """Any channel answered."""
    scale: CommonScale | None = None
    """Scores of its candidates; None of a version alone."""
    count: int = 0
    """Chunks that any channel found."""
    nearest: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    """Best score by channel; None for a channel that found nothing."""
    rarity: Mapping[str, float] | None = None
    """Inverse document frequencies of the query's terms; None where confidence is unknown."""
    similarity: float | None = None
    """Similarity of the nearest vector; None where it is on no known scale."""
    rescores: bool = False
    """Late interaction may score its first chunks again."""


@dataclass(frozen=True, slots=True)
class Rescored:
    """Outcome of late interaction in a version."""

    notes: list[str]
    count: int
    """Chunks that any channel found."""
    scores: np.ndarray | None
    """(n,) float64 scores by late interaction, descending; None when it gave none."""


class SearchedVersions(Protocol):
    """Versions of one place that are searched. Steps are called in their order, `rank` at most twice."""

    count: int
    """Number of versions; each goes by its place in the list."""

    def measure(self, *, nearness: bool) -> list[Measured]:
        """Measure how well each version may fit.

        Args:
            nearness: Look for the nearest file summaries as well.

        Returns:
            Figures of every version.
        """
        ...

    def best_scores(self, total: TermStatistics, versions: Sequence[int]) -> list[float]:
        """Return the lexical score of the best chunk of some versions, with statistics of all versions."""
        ...

    def gather(self, total: TermStatistics | None, versions: Sequence[int], *, alone: bool) -> list[Gathered]:
        """Ask the channels of some versions; the other versions are left out from then on.

        Args:
            total: Statistics of all versions that are asked; None for those of each.
            versions: Versions to ask.
            alone: There is no other version, of which scores would have to be known.

        Returns:
            The candidates of each, in the order of ``versions``.

        Raises:
            InvalidArgumentError: The filters cannot be used.
        """
        ...

    def rank(self, common: CommonScale | None, limit: int) -> list[list[Placed]]:
        """Rank the candidates.

        Args:
            common: Scores of all candidates of all versions; None for a version alone.
            limit: Most chunks of a version.

        Returns:
            The first chunks of each version that has candidates, best first.
        """
        ...

    def interact(self, decision: Decision) -> list[Rescored]:
        """Let late interaction score the first chunks again, and return what came of it in each such version."""
        ...

    def rows(self, chunks: Sequence[Placed]) -> list[ChunkRow]:
        """Look chunks up in the catalogs."""
        ...

    def build(self, first: Sequence[Placed], rest: Sequence[Placed], *, code: bool) -> list[SearchResult]:
        """Build results of chunks that `rows` looked up, each with its explanation if the request asks for that.

        It is the last step: the search is over.

        Args:
            first: Chunks among the first results of all places, best first.
            rest: Further chunks, which show no code.
            code: Whether the first ones show code although no explanation was asked for.

        Returns:
            The results, in the same order.
        """
        ...


@dataclass(slots=True)
class _VersionSearch:
    """Search of one version."""

    plan: SearchPlan
    answers: Answers
    """Candidates by channel."""
    phrases: np.ndarray
    """(m,) int64, sorted: chunks that hold the query's words one after the other."""
    ordered: Sequence[Scored] = ()
    """Its ranking, best first."""
    late: str = ""
    """Decision about late interaction, see `LateReply.decision`."""

    @property
    def count(self) -> int:
        """Number of chunks that any channel found."""
        return len(np.unique(np.concatenate([one.chunk_ids for one in self.answers.values()])))


class OpenVersions:
    """Versions that are open in this process, and the request to each."""

    def __init__(
        self,
        asked: Sequence[tuple[ToolContext, SearchRequest]],
        *,
        weights: Mapping[str, float] | None = None,
        stages: Sequence[list[str]] = (),
    ) -> None:
        """Search versions.

        Args:
            asked: Each version, and the request to it, which differs from the others in its filters alone.
            weights: Multipliers of the profile's channel weights, instead of the settings'; 0 leaves a channel out.
            stages: Notes about stages that each version lacks.
        """
        self.count = len(asked)
        self._asked, self._weights = list(asked), weights or {}
        self._stages = list(stages) or [[] for _ in asked]
        self._sides: dict[int, _VersionSearch] = {}
        self._rows: dict[int, ChunkRow] = {}

    def measure(self, *, nearness: bool) -> list[Measured]:
        """See `SearchedVersions.measure`."""
        query = analyze_query(self._text)
        near = self._nearest_summaries() if nearness else np.zeros(self.count)
        lexical = [context.bundle.channels.get("bm25") for context, _ in self._asked]
        return [
            Measured(one.statistics(query) if isinstance(one, Bm25Channel) else None, float(similarity))
            for one, similarity in zip(lexical, near, strict=True)
        ]

    def best_scores(self, total: TermStatistics, versions: Sequence[int]) -> list[float]:
        """See `SearchedVersions.best_scores`."""
        asked, found = ChannelQuery(analyze_query(self._text), 1, statistics=total), list[float]()
        for number in versions:
            channel = self._asked[number][0].bundle.channels.get("bm25")
            try:
                found.append(channel.best_score(asked) if isinstance(channel, Bm25Channel) else 0.0)
            except UnavailableError:  # the search itself says so
                found.append(0.0)
        return found

    def gather(self, total: TermStatistics | None, versions: Sequence[int], *, alone: bool) -> list[Gathered]:
        """See `SearchedVersions.gather`."""
        return [self._gather(total, number, alone=alone) for number in versions]

    def rank(self, common: CommonScale | None, limit: int) -> list[list[Placed]]:
        """See `SearchedVersions.rank`."""
        with stage("fusion"):
            for side in self._sides.values():
                side.ordered = _rank(side, common, limit)
        return [[Placed.of(number, one) for one in side.ordered] for number, side in self._sides.items()]

    def interact(self, decision: Decision) -> list[Rescored]:
        """See `SearchedVersions.interact`."""
        found: list[Rescored] = []
        for side in self._sides.values():
            reply = interact_late(side.plan, side.answers, side.ordered, decision)
            side.late = reply.decision
            scores = None
            if reply.candidates is not None:
                side.answers = {**side.answers, LATE: reply.candidates}
                scores = reply.candidates.scores.astype(np.float64)
            found.append(Rescored(list(reply.notes), side.count, scores))
        return found

    def rows(self, chunks: Sequence[Placed]) -> list[ChunkRow]:
        """See `SearchedVersions.rows`."""
        for number in dict.fromkeys(one.version for one in chunks):
            ids = [one.chunk_id for one in chunks if one.version == number]
            self._rows |= self._asked[number][0].bundle.catalog.rows(ids)
        return list(self._rows.values())

    def build(self, first: Sequence[Placed], rest: Sequence[Placed], *, code: bool) -> list[SearchResult]:
        """See `SearchedVersions.build`."""
        return [*self._build(first, code=code), *self._build(rest, code=False)]

    def _build(self, shown: Sequence[Placed], *, code: bool) -> list[SearchResult]:
        ranked = {number: ExplainedRanking(one.plan, one.answers, one.late) for number, one in self._sides.items()}
        scored = {(number, one.chunk_id): one for number, side in self._sides.items() for one in side.ordered}
        rows = {one.chunk_id: sound(self._rows[one.chunk_id]) for one in shown}
        return build_results(
            [
                (ranked[one.version], one.explained_by(scored[one.version, one.chunk_id]), row)
                for one in shown
                if (row := rows[one.chunk_id]) is not None
            ],
            code=code,
        )

    @property
    def _text(self) -> str:
        return self._asked[0][1].query[:MAX_QUERY_CHARS]

    def _nearest_summaries(self) -> np.ndarray:
        """Return the similarity of the nearest file summary of each version: (v,) float64."""
        found = np.zeros(self.count)
        bundles = [context.bundle for context, _ in self._asked]
        dense = (bundle.channels.get("faiss") for bundle in bundles)
        channel = next((each for each in dense if isinstance(each, FaissChannel) and each.problem() is None), None)
        if channel is None:
            return found
        try:
            vector = channel.encode(analyze_query(self._text).text)
        except CodequarryError:  # the search itself says so
            return found
        for place, bundle in enumerate(bundles):
            found[place] = bundle.files.nearest_cards(vector).max(initial=-1.0)
        return found

    def _gather(self, total: TermStatistics | None, number: int, *, alone: bool) -> Gathered:
        context, request = self._asked[number]
        text = checked_text("query", request.query, longest=MAX_QUERY_CHARS, suggestion="")
        allowed, limits = allowed_chunks(request.filters, context.bundle.directory, context.bundle.catalog)
        if analyze_query(text).kind == "issue" and not request.filters.include:
            every, allowed = allowed, fixable_chunks(allowed, context.bundle.directory)
            limits += [] if allowed is every else [_READ_AS_ISSUE]
        if allowed is not None:
            saw_density(len(allowed), len(context.bundle.directory.chunk_ids))
        for name, problem in context.bundle.problems().items():
            saw_degraded(name)
            limits.append(f"channel {name} is off: {problem}")
        stages = self._stages[number]
        if not text.strip():
            return Gathered(limits, [], stages)
        plan, notes = _plan(context, request, text, allowed, self._weights, total)
        try:
            answers, more = ask_channels(plan)
        except DeadlineError as error:
            return Gathered(limits, notes, stages, error.message)
        notes += more
        if not answers:
            return Gathered(limits, notes, stages)
        phrases = np.empty(0, np.int64)
        if plan.hybrid:
            answers, more = complete_names(plan, answers)
            with stage("fusion"):
                phrases, others = find_phrases(plan)
            notes += [*more, *others]
        side = self._sides[number] = _VersionSearch(plan, answers, phrases)
        lexical = plan.bundle.channels.get("bm25")
        known = plan.hybrid and isinstance(lexical, Bm25Channel)
        return Gathered(
            limits,
            notes,
            stages,
            answered=True,
            scale=None if alone else CommonScale.of(plan.query, answers, plan.bundle.files),
            count=side.count,
            nearest={name: float(one.scores[0]) if len(one.scores) else None for name, one in answers.items()},
            rarity=lexical.rarity(plan.asked) if known and isinstance(lexical, Bm25Channel) else None,
            similarity=_similarity(plan, answers.get(DENSE_LEGS[0])),
            rescores=plan.hybrid and (plan.bundle.manifest.warp is not None or LATE in plan.bundle.channels),
        )


def _plan(
    context: ToolContext,
    request: SearchRequest,
    text: str,
    allowed: np.ndarray | None,
    weights: Mapping[str, float],
    total: TermStatistics | None,
) -> tuple[SearchPlan, list[str]]:
    query, settings = analyze_query(text), context.settings
    corrected: list[str] = []
    if total is None and request.channel == "hybrid":
        query, corrected = _correct(context.bundle, query)
    multipliers = {**settings.weights_by_channel, **weights}
    if settings.late_mode == "off" and request.channel == "hybrid":
        multipliers[LATE] = 0.0
    chosen, notes = weigh_channels(context.bundle, request.channel, query, multipliers)
    effort = Effort(settings.nprobe, settings.ef_search)
    asked = ChannelQuery(query, settings.candidates, allowed, request.rerank, context.deadline, effort, total)
    return SearchPlan(context.bundle, request, settings, asked, chosen), [*corrected, *notes]


def _correct(bundle: Bundle, query: Query) -> tuple[Query, list[str]]:
    """Return the query with its misspelt words replaced, and notes; as it is where the lexical index is off."""
    lexical = bundle.channels.get("bm25")
    if not isinstance(lexical, Bm25Channel):
        return query, []
    try:
        return correct_words(query, lexical, bundle.catalog.index)
    except UnavailableError:  # the channel itself says so
        return query, []


def _similarity(plan: SearchPlan, nearest: Candidates | None) -> float | None:
    encoder = plan.bundle.manifest.encoder.model
    if encoder is None or encoder.kind != "static" or nearest is None or not len(nearest.scores):
        return None
    return float(nearest.scores[0])


def _rank(side: _VersionSearch, common: CommonScale | None, limit: int) -> list[Scored]:
    plan, method, k = side.plan, side.plan.settings.fusion, side.plan.settings.rrf_k
    if not plan.hybrid:
        channel = plan.request.channel
        return rank_alone(side.answers[channel], channel, method=method, k=k, common=common)[:limit]
    return rank(
        plan.query, side.answers, plan.weights, plan.bundle.files, plan.bundle.chunks, phrases=side.phrases,
        allowed=plan.asked.allowed, method=method, k=k, limit=limit, common=common,
    )  # fmt: skip
