"""Search: check, filter, read the query, ask the channels, rank, look up, explain."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from codequarry.schemas.bundle.layout import DENSE_LEGS
from codequarry.schemas.errors import DeadlineError, EndpointError
from codequarry.schemas.wire.search import (
    MAX_QUERY_CHARS,
    TOP_K_MAX,
    TOP_K_MIN,
    Match,
    SearchAnswer,
    SearchRequest,
    SearchResult,
)
from codequarry.serving.catalog.catalog import ChunkRow
from codequarry.serving.catalog.filters import allowed_chunks
from codequarry.serving.channels.base import ChannelQuery, TermStatistics
from codequarry.serving.channels.bm25 import Bm25Channel
from codequarry.serving.channels.faiss_search import Effort
from codequarry.serving.channels.symbol import NAMED
from codequarry.serving.ranking.confidence import MatchStrength, match_strength
from codequarry.serving.ranking.duplicates import SPARE, keep_distinct
from codequarry.serving.ranking.late import LATE, Decision, decide
from codequarry.serving.ranking.ranking import CommonScale, Scored, merge_rankings, rank, rank_alone
from codequarry.serving.ranking.rerank import Reranker, candidate_of, dealt
from codequarry.serving.request.trace import saw_degraded, saw_density, saw_gate, stage
from codequarry.serving.text.arguments import checked_text, clamp_argument
from codequarry.serving.text.query_classes import NAMES, analyze_query
from codequarry.serving.tools.budgets import briefer_result, fit_budget, shorter_result
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
from codequarry.serving.tools.scopes import scoped

logger = logging.getLogger(__name__)

WEAK_MATCH = (
    "weak match: the index probably holds no answer, and these places are the nearest; use other words, or the exact "
    "text with search_code"
)
"""Note of an answer whose confidence is low."""
_OF_WEAK = 5
"""Results of a weak match."""
_BESIDE_DEFINITION = 2
"""Results beside the definitions of a name that is the whole query."""


def search(context: ToolContext, request: SearchRequest) -> SearchAnswer:
    """Answer the tool ``search``; raises as `find_results`.

    Args:
        context: Version, settings and deadline.
        request: Query, filters and options.

    Returns:
        Results, best first, within the budget of the request.
    """
    return search_versions([(context, request)])


def search_versions(asked: Sequence[tuple[ToolContext, SearchRequest]]) -> SearchAnswer:
    """Answer the tool ``search`` from several versions as if they were one.

    Args:
        asked: See `find_in_versions`.

    Returns:
        Results, best first, within the budget of the request. Raises as `find_results`.
    """
    request = asked[0][1]
    answer = find_in_versions(
        [
            (context if context.settings.reranker_always else replace(context, reranker=None), scoped(own))
            for context, own in asked
        ]
    )
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
    return find_in_versions([(context, request)], weights=weights)


def find_in_versions(
    asked: Sequence[tuple[ToolContext, SearchRequest]], *, weights: Mapping[str, float] | None = None
) -> SearchAnswer:
    """Search several versions as if they were one: scores of all are on one scale.

    Args:
        asked: Each version, and the request to it, which differs from the others in its filters alone; at least one.
        weights: See `find_results`.

    Returns:
        Results, best first; the answer speaks for the first version. Raises as `find_results`.
    """
    first, request = asked[0]
    text = checked_text(
        "query", request.query, longest=MAX_QUERY_CHARS, suggestion="keep the words that name what you look for"
    )
    top_k, limits = clamp_argument("top_k", request.top_k, TOP_K_MIN, TOP_K_MAX)
    plans: list[SearchPlan] = []
    notes: list[str] = []
    for context, own in asked:
        allowed, more = allowed_chunks(own.filters, context.bundle.directory, context.bundle.catalog)
        limits += more
        if allowed is not None:
            saw_density(len(allowed), len(context.bundle.directory.chunk_ids))
        for name, problem in context.bundle.problems().items():
            saw_degraded(name)
            limits.append(f"channel {name} is off: {problem}")
        if text.strip():
            plan, more = _plan(context, own, text, allowed, top_k, weights or {})
            plans.append(plan)
            notes += more
    found = _results(_on_one_scale(plans)) if plans else _Found([], 0, [], None)
    limits += [*notes, *found.notes]
    sure = {} if found.match is None or not request.explain else {"match": _explained_match(found.match)}
    # Channels off may be reported by the bundle and again by the channel itself.
    return SearchAnswer(
        results=found.results,
        queryEcho=text,
        top_k=top_k,
        limits=list(dict.fromkeys(limits)),
        bundle=first.bundle.info,
        candidates=found.candidates,
        **sure,
    )


def _plan(
    context: ToolContext,
    request: SearchRequest,
    text: str,
    allowed: np.ndarray | None,
    top_k: int,
    weights: Mapping[str, float],
) -> tuple[SearchPlan, list[str]]:
    query, settings = analyze_query(text), context.settings
    multipliers = {**settings.weights_by_channel, **weights}
    if settings.late_mode == "off" and request.channel == "hybrid":
        multipliers[LATE] = 0.0
    chosen, notes = weigh_channels(context.bundle, request.channel, query, multipliers)
    effort = Effort(settings.nprobe, settings.ef_search)
    asked = ChannelQuery(query, settings.candidates, allowed, request.rerank, context.deadline, effort)
    return SearchPlan(context.bundle, request, settings, asked, chosen, top_k, context.reranker), notes


def _on_one_scale(plans: Sequence[SearchPlan]) -> list[SearchPlan]:
    """Let lexical indexes of several versions count terms in all of them."""
    lexical = [channel for one in plans if isinstance(channel := one.bundle.channels.get("bm25"), Bm25Channel)]
    if len(plans) == 1 or not lexical:
        return list(plans)
    total = TermStatistics.total(channel.statistics(plans[0].query) for channel in lexical)
    return [replace(one, asked=replace(one.asked, statistics=total)) for one in plans]


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


@dataclass(slots=True)
class _VersionSearch:
    """Search of one version."""

    plan: SearchPlan
    answers: Answers
    """Candidates by channel."""
    late: str = ""
    """Decision about late interaction, see `LateReply.decision`."""


def _results(plans: Sequence[SearchPlan]) -> _Found:
    sides: list[_VersionSearch] = []
    notes: list[str] = []
    late: list[DeadlineError] = []
    for one in plans:
        try:
            answers, more = ask_channels(one)
        except DeadlineError as error:
            if len(plans) == 1:
                raise
            late.append(error)
            continue
        notes += more
        if answers:
            sides.append(_VersionSearch(one, answers))
    if late and not sides:
        raise late[0]
    if late:
        notes.append(f"{len(late)} of {len(plans)} bundles are missing in this answer: {late[0].message}")
    if not sides:
        return _Found([], 0, notes, None)
    plan = sides[0].plan
    wanted = plan.top_k if plan.reranker is None else max(plan.top_k, plan.reranker.candidates)
    order, more = _order(sides, wanted + SPARE)
    notes += more
    with stage("hydration"):
        best: dict[int, tuple[int, Scored]] = {}
        for number, one in order:
            best.setdefault(one.chunk_id, (number, one))
        known: dict[int, ChunkRow] = {}
        for number, side in enumerate(sides):
            known |= side.plan.bundle.catalog.rows([chunk for chunk, (at, _) in best.items() if at == number])
        rows, more = keep_distinct(list(best), known, wanted)
    notes += more
    shown = [(best[row.chunk_id][1], row) for row in rows]
    if plan.reranker is not None:
        shown, more = _rerank(plan, plan.reranker, shown)
        notes += more
    of_side = {row.chunk_id: sides[best[row.chunk_id][0]] for row in rows}
    match = max(
        filter(None, (_match(side, [row for _, row in shown if of_side[row.chunk_id] is side]) for side in sides)),
        key=lambda one: one.confidence,
        default=None,
    )
    weak = match is not None and match.weak and not _defines(shown)
    if weak:
        notes.append(WEAK_MATCH)
    with stage("hydration"):
        explained = {id(side): ExplainedRanking(side.plan, side.answers, side.late) for side in sides}
        worth = _worth_showing(plan, shown, weak=weak)
        results = build_results([(explained[id(of_side[row.chunk_id])], one, row) for one, row in worth], code=not weak)
    candidates = sum(len(np.unique(np.concatenate([one.chunk_ids for one in side.answers.values()]))) for side in sides)
    return _Found(results, candidates, notes, match)


def _match(side: _VersionSearch, rows: Sequence[ChunkRow]) -> MatchStrength | None:
    plan, answers = side.plan, side.answers
    lexical = plan.bundle.channels.get("bm25")
    if not rows or not plan.hybrid or not isinstance(lexical, Bm25Channel):
        return None
    encoder, nearest = plan.bundle.manifest.encoder.model, answers.get(DENSE_LEGS[0])
    similarity = None
    if encoder is not None and encoder.kind == "static" and nearest is not None and len(nearest.scores):
        similarity = float(nearest.scores[0])
    return match_strength(rows, lexical.rarity(plan.asked), similarity, whole=plan.request.explain)


def _defines(shown: Sequence[tuple[Scored, ChunkRow]]) -> list[int]:
    """Return the places, from 0, of the results that define what the query names."""
    return [
        place
        for place, (one, _) in enumerate(shown)
        if (symbol := one.channels.get("symbol")) is not None and symbol.score >= NAMED
    ]


def _worth_showing(
    plan: SearchPlan, shown: Sequence[tuple[Scored, ChunkRow]], *, weak: bool
) -> list[tuple[Scored, ChunkRow]]:
    """Select the results of an answer; a caller that asked for a number of them gets that number.

    Args:
        plan: The search.
        shown: Score and chunk of each result, best first.
        weak: Whether the index probably holds no answer.

    Returns:
        The first results: few of a weak match, and those that define a name with few others when it is the query.
    """
    first = list(shown[: plan.top_k])
    if "top_k" in plan.request.model_fields_set:
        return first
    if weak:
        return first[:_OF_WEAK]
    if plan.query.kind in NAMES and (defining := _defines(first)):
        others = [place for place in range(len(first)) if place not in defining][:_BESIDE_DEFINITION]
        return [first[place] for place in sorted((*defining, *others))]
    return first


def _explained_match(match: MatchStrength) -> Match:
    known = {} if match.similarity is None else {"similarity": match.similarity}
    return Match(confidence=match.confidence, coverage=match.coverage, terms=match.terms, **known)


def _order(sides: Sequence[_VersionSearch], limit: int) -> tuple[list[tuple[int, Scored]], list[str]]:
    """Rank the candidates of all channels of all versions, and let late interaction see the first of them.

    Args:
        sides: Search of each version; gets what is found out meanwhile.
        limit: Most chunks to return.

    Returns:
        Number of the side and chunk, best first, and notes for the caller.
    """
    plan, notes = sides[0].plan, list[str]()
    if not plan.hybrid:
        with stage("fusion"):
            return _rank_alone(sides, limit), notes
    phrases: list[np.ndarray] = []
    for side in sides:
        side.answers, more = complete_names(side.plan, side.answers)
        notes += more
    with stage("fusion"):
        for side in sides:
            found, more = find_phrases(side.plan)
            phrases.append(found)
            notes += more
        rescored = plan.settings.late_rescored if any(LATE in side.plan.weights for side in sides) else 0
        ordered = _rank(sides, phrases, max(limit, rescored))
    merged = _merge(ordered)
    decision = None if len(sides) == 1 else _decide_late(sides, [one for _, one in merged])
    again = False
    for side, own in zip(sides, ordered, strict=True):
        reply = interact_late(side.plan, side.answers, own, decision)
        side.late = reply.decision
        notes += reply.notes
        if reply.candidates is not None:
            side.answers, again = {**side.answers, LATE: reply.candidates}, True
    if again:
        with stage("fusion"):
            merged = _merge(_rank(sides, phrases, limit))
    return merged[:limit], notes


def _decide_late(sides: Sequence[_VersionSearch], merged: Sequence[Scored]) -> Decision:
    """Decide once for all versions whether late interaction looks at the order: scores with and without it differ."""
    decisions = [
        decide(
            merged,
            side.answers,
            side.plan.asked.deadline.within(side.plan.settings.stage2_budget_ms),
            side.plan.settings,
        )
        for side in sides
    ]
    return next((one for one in decisions if one.runs), decisions[0])


def _common(sides: Sequence[_VersionSearch]) -> CommonScale | None:
    if len(sides) == 1:
        return None
    return CommonScale.of(sides[0].plan.query, [(side.answers, side.plan.bundle.files) for side in sides])


def _rank_alone(sides: Sequence[_VersionSearch], limit: int) -> list[tuple[int, Scored]]:
    common, channel = _common(sides), sides[0].plan.request.channel
    return _merge(
        [
            rank_alone(
                side.answers[channel],
                channel,
                method=side.plan.settings.fusion,
                k=side.plan.settings.rrf_k,
                common=common,
            )[:limit]
            for side in sides
        ]
    )[:limit]


def _rank(sides: Sequence[_VersionSearch], phrases: Sequence[np.ndarray], limit: int) -> list[list[Scored]]:
    common = _common(sides)
    return [
        rank(
            side.plan.query, side.answers, side.plan.weights, side.plan.bundle.files, side.plan.bundle.chunks, phrases=found,
            allowed=side.plan.asked.allowed, method=side.plan.settings.fusion, k=side.plan.settings.rrf_k,
            limit=limit, common=common,
        )
        for side, found in zip(sides, phrases, strict=True)
    ]  # fmt: skip


def _merge(rankings: Sequence[Sequence[Scored]]) -> list[tuple[int, Scored]]:
    return [(0, one) for one in rankings[0]] if len(rankings) == 1 else merge_rankings(rankings)


def _rerank(
    plan: SearchPlan, reranker: Reranker, shown: list[tuple[Scored, ChunkRow]]
) -> tuple[list[tuple[Scored, ChunkRow]], list[str]]:
    """Order results by a language model; if it fails, return them unchanged and a note with the reason."""
    first = [candidate_of(row) for _, row in shown[: reranker.candidates]]
    try:
        with stage("rerank"):
            order = reranker.order(plan.query.text, first, plan.asked.deadline)
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
