"""One search: check, filter, ask the channels, fuse, hydrate, explain."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np

from codequarry.schemas.errors import DeadlineError, UnavailableError
from codequarry.schemas.settings import ServingSettings
from codequarry.schemas.tools import (
    MAX_QUERY_CHARS,
    TOP_K_MAX,
    TOP_K_MIN,
    ChannelScore,
    Explain,
    Fusion,
    ResultMetadata,
    SearchAnswer,
    SearchFilters,
    SearchRequest,
    SearchResult,
    TokenPair,
)
from codequarry.serving import present
from codequarry.serving.arguments import checked_text, clamped
from codequarry.serving.bm25 import matched_terms
from codequarry.serving.bundle import Bundle
from codequarry.serving.catalog import ChunkRow
from codequarry.serving.channels import Candidates
from codequarry.serving.deadline import Deadline
from codequarry.serving.filters import allowed_chunks
from codequarry.serving.fusion import Fused, Ranking, fuse
from codequarry.serving.warp_channel import WarpChannel

logger = logging.getLogger(__name__)


def search(bundle: Bundle, request: SearchRequest, settings: ServingSettings, deadline: Deadline) -> SearchAnswer:
    """Answer a search.

    Raises InvalidArgumentError: query or filters cannot be used. DeadlineError: no channel answered in time.
    """
    query = checked_text(
        "query", request.query, longest=MAX_QUERY_CHARS, suggestion="keep the words that name what you look for"
    )
    limits: list[str] = []
    top_k = clamped("top_k", request.top_k, TOP_K_MIN, TOP_K_MAX, limits)
    allowed = allowed_chunks(request.filters, bundle.directory, bundle.catalog)
    for name, problem in bundle.problems().items():
        limits.append(f"channel {name} is off: {problem}")
    results: list[SearchResult] = []
    if query.strip():
        answers, weights = _ask(bundle, request, query, allowed, settings, deadline, limits)
        if answers:
            ranking = fuse(answers, weights, k=settings.rrf_k)
            results = _hydrated(bundle, answers, ranking, top_k, query, request.filters, limits)
    # Channels off may be reported by the bundle and again by the channel itself.
    return SearchAnswer(
        results=results, queryEcho=query, top_k=top_k, limits=list(dict.fromkeys(limits)), bundle=bundle.info
    )


def _ask(
    bundle: Bundle,
    request: SearchRequest,
    query: str,
    allowed: np.ndarray | None,
    settings: ServingSettings,
    deadline: Deadline,
    limits: list[str],
) -> tuple[dict[str, Candidates], dict[str, float]]:
    """Candidates and weights of every channel that answered."""
    weights = _weights(bundle, request.channel, settings, limits)
    answers: dict[str, Candidates] = {}
    late: list[str] = []
    for name in weights:
        if deadline.passed:
            late.append(name)
            continue
        try:
            answers[name] = bundle.channels[name].search(
                query, settings.candidates, allowed=allowed, rerank=request.rerank, deadline=deadline
            )
        except UnavailableError as error:
            limits.append(f"channel {name} is off: {error.message}")
        except DeadlineError:
            late.append(name)
        except Exception:  # whatever breaks inside one index must not take the others' answer away
            logger.exception("channel %s failed", name)
            limits.append(f"channel {name} failed on this query; the server's log says why")
        else:
            limits.extend(answers[name].notes)
    if late and not answers:
        raise DeadlineError(
            f"no channel answered within {deadline.seconds:g} s", suggestion="call again, or ask a single channel"
        )
    if late:
        limits.append(f"stopped after {deadline.seconds:g} s, without channel {present.sentence_list(late)}")
    return answers, {name: weights[name] for name in answers}


def _weights(bundle: Bundle, channel: str, settings: ServingSettings, limits: list[str]) -> dict[str, float]:
    """Fusion weight of every channel to ask, lexical first: it is the cheapest and needs no encoder."""
    configured = {
        "bm25": settings.weight_bm25,
        "faiss": settings.weight_faiss,
        "warp": settings.weight_warp,
        "symbol": settings.weight_symbol,
    }
    if channel == "hybrid":
        weights = {name: weight for name, weight in configured.items() if weight > 0 and name in bundle.channels}
        if not weights:
            limits.append("no channel can answer: all are off or have weight 0")
        return weights
    if channel not in bundle.channels:
        limits.append(f"channel {channel} is not served; served are {present.sentence_list(bundle.channels)}")
        return {}
    return {channel: configured[channel] or 1.0}


def _hydrated(
    bundle: Bundle,
    answers: Mapping[str, Candidates],
    ranking: Ranking,
    top_k: int,
    query: str,
    filters: SearchFilters,
    limits: list[str],
) -> list[SearchResult]:
    wanted = ranking.results[:top_k]
    rows = bundle.catalog.rows([one.chunk_id for one in wanted])
    dropped = sum(one.chunk_id not in rows for one in wanted)
    if dropped:
        limits.append(f"{dropped} results dropped: the catalog has no such chunk")
    return [
        _result(bundle, answers, ranking, one, rows[one.chunk_id], query, filters)
        for one in wanted
        if one.chunk_id in rows
    ]


def _result(
    bundle: Bundle,
    answers: Mapping[str, Candidates],
    ranking: Ranking,
    fused: Fused,
    row: ChunkRow,
    query: str,
    filters: SearchFilters,
) -> SearchResult:
    explain = Explain(
        hit_reason=_reasons(answers, fused, row, query, filters),
        channels={
            name: ChannelScore(rank=part.rank, score=part.score, weight=part.weight)
            for name, part in sorted(fused.parts.items())
        },
        fusion=Fusion(method="weighted_rrf", k=ranking.k, normalizer=ranking.normalizer),
        scip=row.scip,
        ast=row.kind != "text",
        cst=row.cst,
        tokens=_tokens(bundle, fused, row, query),
    )
    return SearchResult(
        id=str(row.chunk_id),
        title=present.title(row),
        url=present.url(row),
        snippet=present.first_lines(row.text),
        score=fused.score,
        source=bundle.channels[fused.leader(ranking.k)].source,
        metadata=ResultMetadata(**present.location(row).model_dump(), explain=explain),
    )


def _tokens(bundle: Bundle, fused: Fused, row: ChunkRow, query: str) -> list[TokenPair]:
    """Pairs of tokens of a chunk that late interaction found."""
    channel = bundle.channels.get("warp")
    if "warp" not in fused.parts or not isinstance(channel, WarpChannel):
        return []
    definitions = bundle.catalog.definitions_in([row.chunk_id]).get(row.chunk_id, [])
    return channel.explain(query, row, definitions, before=bundle.bytes_before(row))


def _reasons(
    answers: Mapping[str, Candidates], fused: Fused, row: ChunkRow, query: str, filters: SearchFilters
) -> list[str]:
    reasons: list[str] = []
    if "faiss" in fused.parts:
        reasons.append("embedding:cosine")
    if "warp" in fused.parts:
        reasons.append("late_interaction:maxsim")
    if "bm25" in fused.parts:
        terms = matched_terms(query, [row.path, row.qualified_name, *row.symbols, row.text])
        reasons.append(f"bm25:terms={','.join(terms)}")
    reasons += [answers[name].reasons[row.chunk_id] for name in fused.parts if row.chunk_id in answers[name].reasons]
    given: Mapping[str, bool] = {
        f"filter:lang={row.lang}": bool(filters.lang),
        f"filter:repo={row.repo}": bool(filters.repos),
        "filter:include": bool(filters.include),
        "filter:exclude": bool(filters.exclude),
        "filter:symbols": bool(filters.symbols),
    }
    return reasons + [reason for reason, applies in given.items() if applies]
