"""Tool ``semantic_search_pro``: a search whose stages the caller weights, answered as findings."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from codequarry.schemas.bundle.layout import DENSE_LEGS
from codequarry.schemas.wire.pro import (
    LIMIT_MAX,
    LIMIT_MIN,
    Finding,
    Method,
    ProAnswer,
    ProRequest,
    ProScope,
    RetrievalMethod,
)
from codequarry.schemas.wire.search import SearchAnswer, SearchRequest, SearchResult
from codequarry.schemas.wording import counted
from codequarry.serving.catalog import present
from codequarry.serving.channels.dense import DenseChannel
from codequarry.serving.text.arguments import clamp_argument
from codequarry.serving.tools.budgets import briefer_finding, fit_budget, shorter_finding
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.tools.scopes import scoped
from codequarry.serving.tools.search import SearchTerms, find_with_stages
from codequarry.serving.tools.version_search import OpenVersions, SearchedVersions
from codequarry.serving.version.open import Bundle

CODERANK = "CodeRankEmbed"
_NAMED_IN_ANSWER = 3


def semantic_search_pro(context: ToolContext, request: ProRequest) -> ProAnswer:
    """Answer a search with chosen stages; raises as `find_results`.

    Args:
        context: Version, settings and deadline; its reranker, if any, orders the first results when asked for.
        request: Query, filters and stages.

    Returns:
        Findings, best first.
    """
    return search_with_stages([open_with_stages([(context, request)])], request, SearchTerms.of(context))


def open_with_stages(asked: Sequence[tuple[ToolContext, ProRequest]]) -> OpenVersions:
    """Return the versions that a search with chosen stages asks, each with the request to it."""
    weights: dict[str, float] = {}
    stages: list[list[str]] = []
    searches: list[tuple[ToolContext, SearchRequest]] = []
    for context, own in asked:
        chosen, more = _stages(context.bundle, own)
        weights |= chosen
        stages.append([*more, *_without_effect(context.bundle, _effort(own))])
        settings = context.settings.model_copy(update=_effort(own))
        searches.append((replace(context, settings=settings), _search_of(own)))
    return OpenVersions(searches, weights=weights, stages=stages)


def search_with_stages(places: Sequence[SearchedVersions], request: ProRequest, terms: SearchTerms) -> ProAnswer:
    """Answer a search with chosen stages from versions of several places as if they were one.

    Args:
        places: See `find_in_places`.
        request: Query and options.
        terms: See `find_in_places`; the reranker orders the first results when asked for.

    Returns:
        Findings, best first. Raises as `find_results`.
    """
    started = time.perf_counter()
    limit, limits = clamp_argument("limit", request.limit, LIMIT_MIN, LIMIT_MAX)
    asked = replace(terms, reranker=terms.reranker if request.use_reranker else None)
    found, notes = find_with_stages(places, _search_of(request), asked)
    if request.use_reranker and terms.reranker is None:
        notes.append("no language model is configured to rerank; the order is that of the fusion")
    findings = [_finding(result, explain=request.explain) for result in found.results]
    shown, cuts = fit_budget(findings, request.max_tokens, shorter_finding, briefer_finding)
    limits += [*notes, *found.limits, *cuts]
    return ProAnswer(
        findings=shown,
        answer=_sentence(found.results[: len(shown)]),
        confidence=0.0 if found.match is None else round(found.match.confidence, 4),
        limits=list(dict.fromkeys(limits)),
        method=Method(
            retrieval=RetrievalMethod(
                channels=sorted({name for result in found.results for name in result.metadata.explain.channels}),
                count=len(shown),
                requested_limit=request.limit,
                effective_limit=limit,
                notes=notes,
                duration_s=round(time.perf_counter() - started, 6),
            )
        ),
        scope=_scope(request, found),
    )


def _search_of(request: ProRequest) -> SearchRequest:
    limit, _ = clamp_argument("limit", request.limit, LIMIT_MIN, LIMIT_MAX)
    return SearchRequest(query=request.query, top_k=limit, filters=scoped(request).filters, explain=True)


def _effort(request: ProRequest) -> dict[str, int]:
    return {name: value for name in ("nprobe", "ef_search") if (value := getattr(request, name)) > 0}


def _stages(bundle: Bundle, request: ProRequest) -> tuple[dict[str, float], list[str]]:
    """Return weights that differ from the settings', and notes about stages that are not available."""
    weights: dict[str, float] = {**request.stage_weights}
    notes: list[str] = []
    encoders = [leg.encoder.name for leg in bundle.manifest.legs if leg.channel in bundle.channels]
    if not request.use_coderank:
        weights |= dict.fromkeys(DENSE_LEGS, 0.0)
    elif encoders and not any(CODERANK.lower() in encoder.lower() for encoder in encoders):
        notes.append(f"the index holds no {CODERANK} vectors; dense search uses {present.sentence_list(encoders)}")
    if not request.use_warp:
        weights["warp"] = 0.0
    elif "warp" not in bundle.channels:
        notes.append("the index holds no WARP vectors; late interaction was left out")
    absent = [name for name in request.stage_weights if name not in bundle.channels and name != "warp"]
    notes += [f"the index has no stage {name}; its weight was left out" for name in absent]
    return {name: weight for name, weight in weights.items() if name in bundle.channels}, notes


def _without_effect(bundle: Bundle, effort: Mapping[str, int]) -> list[str]:
    """Return notes about parameters that no dense index of the version has."""
    dense = [channel for channel in bundle.channels.values() if isinstance(channel, DenseChannel)]
    known = {name for channel in dense for name in channel.bounds}
    sources = present.sentence_list(channel.source for channel in dense) or "the index"
    return [f"{sources} has no {name}; it was left out" for name in effort if name not in known]


def _finding(result: SearchResult, *, explain: bool) -> Finding:
    why = ", ".join(result.metadata.explain.hit_reason)
    if explain:
        parts = (
            f"{name} rank {part.rank} (score {part.score:.3g}, weight {part.weight:g})"
            for name, part in result.metadata.explain.channels.items()
        )
        why = "; ".join(filter(None, ["; ".join(parts), why]))
    finding = Finding(
        uri=result.metadata.uri,
        start_line=result.metadata.start_line,
        end_line=result.metadata.end_line,
        preview=result.snippet,
        chunk_id=result.id,
        why=why,
    )
    tokens = result.metadata.explain.tokens if explain else []
    return finding.model_copy(update={"tokens": tokens}) if tokens else finding


def _sentence(results: list[SearchResult]) -> str:
    if not results:
        return "Nothing was found: use other words or fewer filters; describe_index tells what is indexed."
    first = "; ".join(_place(result) for result in results[:_NAMED_IN_ANSWER])
    more = len(results) - _NAMED_IN_ANSWER
    return f"{counted(len(results), 'finding')}, best first: {first}" + (f"; and {more} more." if more > 0 else ".")


def _place(result: SearchResult) -> str:
    symbols = present.sentence_list(present.one_line(name, 80) for name in result.metadata.symbols[:2])
    return result.title + (f" ({symbols})" if result.metadata.symbols else "")


def _scope(request: ProRequest, found: SearchAnswer) -> ProScope:
    filters = request.filters
    return ProScope(
        languages=filters.lang,
        include=filters.include,
        exclude=filters.exclude,
        repos=filters.repos,
        symbols=filters.symbols,
        kinds=list(filters.kinds),
        scope_id=request.scope_id,
        version=found.bundle.version,
        commits=found.bundle.commits,
    )
