"""Search: check, filter, read the query, ask the channels, rank, look up, explain."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from codequarry.schemas.bundle.layout import DENSE_LEGS
from codequarry.schemas.errors import EndpointError
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
from codequarry.serving.channels.base import ChannelQuery
from codequarry.serving.channels.bm25 import Bm25Channel
from codequarry.serving.channels.faiss_search import Effort
from codequarry.serving.channels.symbol import NAMED
from codequarry.serving.ranking.confidence import MatchStrength, match_strength
from codequarry.serving.ranking.duplicates import SPARE, keep_distinct
from codequarry.serving.ranking.late import LATE
from codequarry.serving.ranking.ranking import Scored, rank, rank_alone
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
    if not context.settings.reranker_always:
        context = replace(context, reranker=None)
    answer = find_results(context, scoped(request))
    briefer = briefer_result if request.explain else None
    results, notes = fit_budget(answer.results, request.max_tokens, shorter_result, briefer)
    return answer.model_copy(update={"results": results, "limits": [*answer.limits, *notes]})


def find_results(
    context: ToolContext, request: SearchRequest, *, weights: Mapping[str, float] | None = None
) -> SearchAnswer:
    """Search.

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
    bundle = context.bundle
    text = checked_text(
        "query", request.query, longest=MAX_QUERY_CHARS, suggestion="keep the words that name what you look for"
    )
    top_k, limits = clamp_argument("top_k", request.top_k, TOP_K_MIN, TOP_K_MAX)
    allowed, notes = allowed_chunks(request.filters, bundle.directory, bundle.catalog)
    limits += notes
    if allowed is not None:
        saw_density(len(allowed), len(bundle.directory.chunk_ids))
    for name, problem in bundle.problems().items():
        saw_degraded(name)
        limits.append(f"channel {name} is off: {problem}")
    found = _Found([], 0, [], None)
    if text.strip():
        query, settings = analyze_query(text), context.settings
        multipliers = {**settings.weights_by_channel, **(weights or {})}
        if settings.late_mode == "off" and request.channel == "hybrid":
            multipliers[LATE] = 0.0
        chosen, notes = weigh_channels(bundle, request.channel, query, multipliers)
        effort = Effort(settings.nprobe, settings.ef_search)
        asked = ChannelQuery(query, settings.candidates, allowed, request.rerank, context.deadline, effort)
        plan = SearchPlan(bundle, request, settings, asked, chosen, top_k, context.reranker)
        found = _results(plan)
        limits += [*notes, *found.notes]
    sure = {} if found.match is None or not request.explain else {"match": _explained_match(found.match)}
    # Channels off may be reported by the bundle and again by the channel itself.
    return SearchAnswer(
        results=found.results,
        queryEcho=text,
        top_k=top_k,
        limits=list(dict.fromkeys(limits)),
        bundle=bundle.info,
        candidates=found.candidates,
        **sure,
    )


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


def _results(plan: SearchPlan) -> _Found:
    answers, notes = ask_channels(plan)
    if not answers:
        return _Found([], 0, notes, None)
    wanted = plan.top_k if plan.reranker is None else max(plan.top_k, plan.reranker.candidates)
    order, more = _order(plan, answers, wanted + SPARE)
    notes += more
    catalog = plan.bundle.catalog
    with stage("hydration"):
        best = {one.chunk_id: one for one in order.first}
        rows, more = keep_distinct(list(best), catalog.rows(list(best)), wanted)
    notes += more
    shown = [(best[row.chunk_id], row) for row in rows]
    if plan.reranker is not None:
        shown, more = _rerank(plan, plan.reranker, shown)
        notes += more
    match = _match(plan, order.answers, shown)
    weak = match is not None and match.weak and not _defines(shown)
    if weak:
        notes.append(WEAK_MATCH)
    ranking = ExplainedRanking(plan, order.answers, order.late)
    with stage("hydration"):
        results = build_results(ranking, _worth_showing(plan, shown, weak=weak), code=not weak)
    candidates = np.unique(np.concatenate([one.chunk_ids for one in order.answers.values()]))
    return _Found(results, len(candidates), notes, match)


def _match(plan: SearchPlan, answers: Answers, shown: Sequence[tuple[Scored, ChunkRow]]) -> MatchStrength | None:
    lexical = plan.bundle.channels.get("bm25")
    if not shown or not plan.hybrid or not isinstance(lexical, Bm25Channel):
        return None
    encoder, nearest = plan.bundle.manifest.encoder.model, answers.get(DENSE_LEGS[0])
    similarity = None
    if encoder is not None and encoder.kind == "static" and nearest is not None and len(nearest.scores):
        similarity = float(nearest.scores[0])
    return match_strength((row for _, row in shown), lexical.rarity(plan.query), similarity, whole=plan.request.explain)


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


@dataclass(frozen=True, slots=True)
class _Order:
    """Order of the candidates of all channels."""

    first: Sequence[Scored]
    """The first of them."""
    answers: Answers
    late: str
    """Decision about late interaction, see `LateReply.decision`."""


def _order(plan: SearchPlan, answers: Answers, limit: int) -> tuple[_Order, list[str]]:
    """Rank the candidates of all channels.

    Args:
        plan: The search.
        answers: Candidates by channel.
        limit: Most chunks to return.

    Returns:
        Their order, and notes for the caller.
    """
    method, k = plan.settings.fusion, plan.settings.rrf_k
    if not plan.hybrid:
        channel = plan.request.channel
        with stage("fusion"):
            return _Order(rank_alone(answers[channel], channel, method=method, k=k)[:limit], answers, ""), []
    answers, notes = complete_names(plan, answers)
    with stage("fusion"):
        phrases, more = find_phrases(plan)
        rank_again = partial(
            rank, plan.query, weights=plan.weights, files=plan.bundle.files, phrases=phrases,
            allowed=plan.asked.allowed, method=method, k=k,
        )  # fmt: skip
        ordered = rank_again(answers, limit=max(limit, plan.settings.late_rescored) if LATE in plan.weights else limit)
    late = interact_late(plan, answers, ordered)
    if late.candidates is not None:
        answers = {**answers, LATE: late.candidates}
        with stage("fusion"):
            ordered = rank_again(answers, limit=limit)
    return _Order(ordered[:limit], answers, late.decision), [*notes, *more, *late.notes]


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
