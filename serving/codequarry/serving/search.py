"""One search: check, filter, read the query, ask the channels, rank, hydrate, explain."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from codequarry.schemas.errors import DeadlineError, EndpointError, UnavailableError
from codequarry.schemas.layout import DENSE_LEGS
from codequarry.schemas.settings import ServingSettings
from codequarry.schemas.tools import (
    MAX_QUERY_CHARS,
    TOP_K_MAX,
    TOP_K_MIN,
    ChannelScore,
    Evidence,
    Explain,
    FusionMethod,
    ImpactTerm,
    ResultMetadata,
    Scoring,
    SearchAnswer,
    SearchFilters,
    SearchRequest,
    SearchResult,
    TokenPair,
    to_wire,
)
from codequarry.serving import present, ranking
from codequarry.serving.arguments import checked_text, clamped
from codequarry.serving.bm25 import Bm25Channel, matched_terms
from codequarry.serving.bundle import Bundle
from codequarry.serving.catalog import ChunkRow
from codequarry.serving.channels import Candidates
from codequarry.serving.chunk_facts import about
from codequarry.serving.deadline import Deadline
from codequarry.serving.dense import FaissChannel
from codequarry.serving.faiss_search import Effort
from codequarry.serving.filters import allowed_chunks
from codequarry.serving.hygiene import SPARE, standing
from codequarry.serving.late_interaction import LATE, NO_TIME, RESCORED, Rescorer, decide, ran, rescored, skipped
from codequarry.serving.query import NAMES, Query, analyze_query
from codequarry.serving.ranking import Scored, channel_weights, rank, rank_alone
from codequarry.serving.reranker import Reranker, candidate_of, dealt
from codequarry.serving.splade_channel import SpladeChannel
from codequarry.serving.trace import saw_candidates, saw_degraded, saw_density, saw_gate, stage
from codequarry.serving.warp_channel import WarpChannel

logger = logging.getLogger(__name__)

SPARSE = "splade"
_EXPLAIN_BYTES = 2048
"""Of what explains a result, as JSON."""
_MAX_TERMS_CHARS = 300
_SHORT_REASON = 40
_LITTLE_TEXT = 220
"""Bytes of what is said with which no explanation without lists grows too large."""


def search(
    bundle: Bundle,
    request: SearchRequest,
    settings: ServingSettings,
    deadline: Deadline,
    *,
    weights: Mapping[str, float] | None = None,
    reranker: Reranker | None = None,
) -> SearchAnswer:
    """Answer a search.

    weights: what multiplies the profile's weight of a channel, instead of the settings; 0 leaves it out.
    reranker: a language model that orders the first results; None for the order of the fusion.

    Raises InvalidArgumentError: query or filters cannot be used. DeadlineError: no channel answered in time.
    """
    query = checked_text(
        "query", request.query, longest=MAX_QUERY_CHARS, suggestion="keep the words that name what you look for"
    )
    limits: list[str] = []
    top_k = clamped("top_k", request.top_k, TOP_K_MIN, TOP_K_MAX, limits)
    allowed = allowed_chunks(request.filters, bundle.directory, bundle.catalog)
    if allowed is not None:
        saw_density(len(allowed), len(bundle.directory.chunk_ids))
    for name, problem in bundle.problems().items():
        saw_degraded(name)
        limits.append(f"channel {name} is off: {problem}")
    results: list[SearchResult] = []
    if query.strip():
        if weights:
            changed = {f"weight_{name}": weight for name, weight in weights.items()}
            settings = settings.model_copy(update=changed)
        results = _results(bundle, request, query, top_k, allowed, settings, deadline, limits, reranker)
    # Channels off may be reported by the bundle and again by the channel itself.
    return SearchAnswer(
        results=results, queryEcho=query, top_k=top_k, limits=list(dict.fromkeys(limits)), bundle=bundle.info
    )


def _results(
    bundle: Bundle,
    request: SearchRequest,
    text: str,
    top_k: int,
    allowed: np.ndarray | None,
    settings: ServingSettings,
    deadline: Deadline,
    limits: list[str],
    reranker: Reranker | None,
) -> list[SearchResult]:
    query = analyze_query(text)
    weights = _weights(bundle, request.channel, query, settings, limits)
    hybrid = request.channel == "hybrid"
    # In hybrid, late interaction looks at what the others found, unless nothing else is there to be asked.
    first = {name: weight for name, weight in weights.items() if name != LATE or not hybrid} or weights
    answers = _ask(bundle, request, query, first, allowed, settings, deadline, limits)
    if not answers:
        return []
    wanted = top_k if reranker is None else max(top_k, reranker.candidates)
    method, k, limit, late = settings.fusion, settings.rrf_k, wanted + SPARE, ""
    if hybrid:
        _complete(bundle, query, answers, settings.candidates, limits)
        with stage("fusion"):
            again = partial(
                rank, query, answers, weights, bundle.files, phrases=_phrases(bundle, query, weights, limits),
                allowed=allowed, method=method, k=k,
            )  # fmt: skip
            ordered = again(limit=max(limit, RESCORED) if LATE in weights else limit)
        late = _late(bundle, query, weights, answers, ordered, deadline, limits)
        if LATE in answers and LATE not in first:
            with stage("fusion"):
                ordered = again(limit=limit)
    else:
        with stage("fusion"):
            ordered = rank_alone(answers[request.channel], request.channel, method=method, k=k)
    with stage("hydration"):
        best = {one.chunk_id: one for one in ordered[:limit]}
        rows = standing(list(best), bundle.catalog.rows(list(best)), wanted, limits)
    shown = [(best[row.chunk_id], row) for row in rows]
    if reranker is not None:
        shown = _reranked(reranker, query, shown, deadline, limits)
    with stage("hydration"):
        return [_result(bundle, answers, one, row, query, method, late, request.filters) for one, row in shown[:top_k]]


def _reranked(
    reranker: Reranker, query: Query, shown: list[tuple[Scored, ChunkRow]], deadline: Deadline, limits: list[str]
) -> list[tuple[Scored, ChunkRow]]:
    """Results in the order of a language model; as they are, and why, when it gives none."""
    first = [candidate_of(row) for _, row in shown[: reranker.candidates]]
    try:
        with stage("rerank"):
            order = reranker.order(query.text, first, deadline)
    except Exception as error:  # whatever breaks in it must not take the results away
        why = "it failed, and the server's log says why"
        if isinstance(error, EndpointError):
            why = error.message
        else:
            logger.exception("reranking failed")
        saw_degraded("rerank")
        limits.append(f"the language model did not rerank: {why}; the order is that of the fusion")
        return shown
    rows = {row.chunk_id: row for _, row in shown}
    return [(one, rows[one.chunk_id]) for one in dealt([one for one, _ in shown], order)]


def _late(
    bundle: Bundle,
    query: Query,
    weights: Mapping[str, float],
    answers: dict[str, Candidates],
    ordered: Sequence[Scored],
    deadline: Deadline,
    limits: list[str],
) -> str:
    """Let late interaction look at the first of the ranking where that is worth it: what was decided, and why.

    answers: gets its own where it gave one.
    """
    channel = bundle.channels.get(LATE)
    if bundle.manifest.warp is None and channel is None:
        return ""
    if LATE in answers:
        decision = ran("no other channel was asked")
    elif not isinstance(channel, Rescorer):
        decision = skipped("the channel is off")
    elif not weights.get(LATE):
        decision = skipped("it has no weight")
    else:
        decision = decide(ordered, answers, deadline)
        if decision.runs:
            out_of_time: list[str] = []
            ask = partial(rescored, channel, query.text, ordered, deadline)
            found = _answer(LATE, ask, out_of_time, limits)
            if found is not None:
                answers[LATE] = found
            else:
                decision = skipped(NO_TIME if out_of_time else "the channel is off")
    if decision.why == NO_TIME:
        saw_degraded(LATE)
        limits.append(f"stopped after {deadline.seconds:g} s, without channel {LATE}")
    saw_gate(LATE, decision.verdict)
    return str(decision)


def _ask(
    bundle: Bundle,
    request: SearchRequest,
    query: Query,
    weights: Mapping[str, float],
    allowed: np.ndarray | None,
    settings: ServingSettings,
    deadline: Deadline,
    limits: list[str],
) -> dict[str, Candidates]:
    """Candidates of every channel that answered."""
    answers: dict[str, Candidates] = {}
    late: list[str] = []
    for name in weights:
        if deadline.passed:
            late.append(name)
            continue
        channel = bundle.channels[name]
        asked = channel.search
        if isinstance(channel, FaissChannel):
            asked = partial(channel.search, effort=Effort(settings.nprobe, settings.ef_search))
        ask = partial(asked, query.text, settings.candidates, allowed=allowed)
        found = _answer(name, partial(ask, rerank=request.rerank, deadline=deadline), late, limits)
        if found is not None:
            answers[name] = found
    for name in late:
        saw_degraded(name)
    if late and not answers:
        raise DeadlineError(
            f"no channel answered within {deadline.seconds:g} s", suggestion="call again, or ask a single channel"
        )
    if late:
        limits.append(f"stopped after {deadline.seconds:g} s, without channel {present.sentence_list(late)}")
    return answers


def _answer(name: str, ask: Callable[[], Candidates], late: list[str], limits: list[str]) -> Candidates | None:
    """What a channel answers; None, and why, when it does not. late: gets the name of one that had no time."""
    try:
        with stage(name):
            found = ask()
    except UnavailableError as error:
        saw_degraded(name)
        limits.append(f"channel {name} is off: {error.message}")
    except DeadlineError:
        late.append(name)
    except Exception:  # whatever breaks inside one index must not take the others' answer away
        saw_degraded(name)
        logger.exception("channel %s failed", name)
        limits.append(f"channel {name} failed on this query; the server's log says why")
    else:
        saw_candidates(name, found.chunk_ids, found.scores)
        limits.extend(found.notes)
        return found
    return None


def _weights(
    bundle: Bundle, channel: str, query: Query, settings: ServingSettings, limits: list[str]
) -> dict[str, float]:
    """Weight of every channel to ask, lexical first: it is the cheapest and needs no encoder."""
    if channel != "hybrid":
        if channel in bundle.channels:
            return {channel: 1.0}
        limits.append(f"channel {channel} is not served; served are {present.sentence_list(bundle.channels)}")
        return {}
    multipliers = {
        "bm25": settings.weight_bm25,
        "faiss": settings.weight_faiss,
        "faiss2": settings.weight_faiss2,
        "symbol": settings.weight_symbol,
        SPARSE: settings.weight_splade,
        LATE: settings.weight_warp,
    }
    multipliers = {name: one for name, one in multipliers.items() if name in bundle.channels}
    if not any(multipliers.values()):
        limits.append("no channel can answer: all are off or have weight 0")
    weights = channel_weights(bundle.profile.classes[query.kind], multipliers)
    if not (query.qualified or query.plain):
        weights["symbol"] = 0.0
    found = {name: weight for name, weight in weights.items() if weight > 0}
    # A class of queries may need only channels that this version lacks: then any that is there.
    return found or {name: one for name, one in multipliers.items() if one > 0}


def _complete(bundle: Bundle, query: Query, answers: dict[str, Candidates], most: int, limits: list[str]) -> None:
    """Let BM25 score the definitions of a name that is all there is to the query.

    Hundreds of chunks may hold the one word and score alike: the definition is often not among the candidates, and
    would get nothing where the last of them gets nearly as much as the first.

    most: candidates that a channel gives.
    """
    lexical, found = bundle.channels.get("bm25"), answers.get("bm25")
    if found is None or len(found.chunk_ids) < most or query.kind not in NAMES:
        return
    if "symbol" in answers and isinstance(lexical, Bm25Channel):
        try:
            answers["bm25"] = lexical.completed(query.text, found, answers["symbol"].chunk_ids)
        except UnavailableError as error:
            limits.append(f"channel bm25 is off: {error.message}")


def _phrases(bundle: Bundle, query: Query, weights: Mapping[str, float], limits: list[str]) -> np.ndarray:
    """Chunks that hold the query's words one after the other: (m,) int64, sorted."""
    lexical = bundle.channels.get("bm25")
    if "bm25" not in weights or not isinstance(lexical, Bm25Channel):
        return np.empty(0, np.int64)
    try:
        return lexical.holding_phrase(query.text)
    except UnavailableError as error:
        limits.append(f"channel bm25 is off: {error.message}")
        return np.empty(0, np.int64)


def _result(
    bundle: Bundle,
    answers: Mapping[str, Candidates],
    scored: Scored,
    row: ChunkRow,
    query: Query,
    method: FusionMethod,
    late: str,
    filters: SearchFilters,
) -> SearchResult:
    explain = Explain(
        hit_reason=_reasons(answers, scored, row, query.text, filters),
        channels={
            name: ChannelScore(rank=part.rank, score=part.score, value=part.value, weight=part.weight)
            for name, part in scored.channels.items()
        },
        scoring=Scoring(
            method=method,
            query_class=query.kind,
            reason=query.reason,
            chunk=_evidence(scored.chunk),
            file=_evidence(scored.file),
            factors=scored.factors,
            file_share=scored.file_share,
            best_chunk=scored.best_chunk,
            best_file=scored.best_file,
            repeat=scored.repeat,
            **({"reranked": scored.reranked, "fused_place": scored.fused_place} if scored.fused_place else {}),
            late=late,
        ),
        scip=row.scip,
        ast=row.kind != "text",
        cst=row.cst,
        **about(bundle, row),
        tokens=_tokens(bundle, scored, row, query),
        terms=_terms(bundle, scored, row, query),
    )
    return SearchResult(
        id=str(row.chunk_id),
        title=present.title(row),
        url=present.url(row),
        snippet=present.first_lines(row.text),
        score=scored.score,
        source=bundle.channels[scored.leader].source if scored.leader else "files",
        metadata=ResultMetadata(**present.location(row).model_dump(), explain=_within_bounds(explain)),
    )


def _evidence(found: Mapping[str, ranking.Evidence]) -> dict[str, Evidence]:
    return {name: Evidence(value=each.value, weight=each.weight) for name, each in found.items()}


def _tokens(bundle: Bundle, scored: Scored, row: ChunkRow, query: Query) -> list[TokenPair]:
    """Pairs of tokens of a chunk that late interaction found."""
    channel = bundle.channels.get(LATE)
    if LATE not in scored.channels or not isinstance(channel, WarpChannel):
        return []
    definitions = bundle.catalog.definitions_in([row.chunk_id]).get(row.chunk_id, [])
    return channel.explain(query.text, row, definitions, before=bundle.bytes_before(row))


def _terms(bundle: Bundle, scored: Scored, row: ChunkRow, query: Query) -> list[ImpactTerm]:
    """Terms of a chunk that learned sparse search found."""
    channel = bundle.channels.get(SPARSE)
    if SPARSE not in scored.channels or not isinstance(channel, SpladeChannel):
        return []
    return channel.explain(query.text, row)


def _within_bounds(explain: Explain) -> Explain:
    """Without the least of its pairs of tokens and of its terms, as many as make it too large; then with less text."""
    lists = bool(explain.terms or explain.tokens)
    if not lists and sum(len(text.encode()) for text in (explain.said, *explain.hit_reason)) <= _LITTLE_TEXT:
        return explain  # a number has 22 bytes at most
    for part in ("terms", "tokens"):
        rest = list(getattr(explain, part))
        while rest and _size(explain) > _EXPLAIN_BYTES:
            rest.pop()
            explain = explain.model_copy(update={part: list(rest)})
    shorter = [reason[:_SHORT_REASON] for reason in explain.hit_reason]
    for less in ({"said": ""}, {"hit_reason": shorter}, {"leaves": {}, "kinds": {}}):
        if _size(explain) > _EXPLAIN_BYTES:
            explain = explain.model_copy(update=less)
    return explain


def _size(explain: Explain) -> int:
    """Bytes as JSON."""
    return len(json.dumps(to_wire(explain), ensure_ascii=False).encode())


def _listed(terms: Sequence[str]) -> str:
    """The terms with commas between; of many the first, and how many more there are."""
    listed = ",".join(terms)
    if len(listed) <= _MAX_TERMS_CHARS:
        return listed
    shown = max(1, listed.count(",", 0, _MAX_TERMS_CHARS))
    return f"{','.join(terms[:shown])} and {len(terms) - shown} more"


def _reasons(
    answers: Mapping[str, Candidates], scored: Scored, row: ChunkRow, query: str, filters: SearchFilters
) -> list[str]:
    reasons: list[str] = []
    if not scored.channels.keys().isdisjoint(DENSE_LEGS):
        reasons.append("embedding:cosine")
    if LATE in scored.channels:
        reasons.append("late_interaction:maxsim")
    if SPARSE in scored.channels:
        reasons.append("learned_sparse:impact")
    if not scored.channels.keys().isdisjoint({"bm25", *DENSE_LEGS}):
        terms = matched_terms(query, [row.path, row.qualified_name, *row.symbols, row.text])
        by = "bm25" if "bm25" in scored.channels else "shared"
        reasons += [f"{by}:terms={_listed(terms)}"] if terms else []
    reasons += [
        answers[name].reasons[row.chunk_id] for name in scored.channels if row.chunk_id in answers[name].reasons
    ]
    reasons += [f"text:{name}" for name in scored.chunk]
    reasons += ["file:name"] if "name_cover" in scored.file else []
    reasons += [f"rerank:place {scored.fused_place} before"] if scored.fused_place else []
    given: Mapping[str, bool] = {
        f"filter:lang={row.lang}": bool(filters.lang),
        f"filter:repo={row.repo}": bool(filters.repos),
        "filter:include": bool(filters.include),
        "filter:exclude": bool(filters.exclude),
        "filter:symbols": bool(filters.symbols),
    }
    return reasons + [reason for reason, applies in given.items() if applies]
