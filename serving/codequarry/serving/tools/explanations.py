"""Explanation of search results: scores, reasons, matched terms and tokens, and facts about the chunk."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from codequarry.schemas.bundle.layout import DENSE_LEGS
from codequarry.schemas.wire.search import (
    MAX_SNIPPET_LINES,
    ChannelScore,
    Evidence,
    Explain,
    ImpactTerm,
    ResultMetadata,
    Scoring,
    SearchResult,
    TokenPair,
    to_wire,
)
from codequarry.serving.catalog import present
from codequarry.serving.catalog.catalog import ChunkRow
from codequarry.serving.catalog.explanation_facts import MAX_SAID
from codequarry.serving.catalog.handles import handle_of
from codequarry.serving.catalog.headings import enclosing_heading
from codequarry.serving.channels.bm25 import matched_terms
from codequarry.serving.channels.splade import SpladeChannel
from codequarry.serving.channels.warp.channel import WarpChannel
from codequarry.serving.ranking import ranking
from codequarry.serving.ranking.late import LATE
from codequarry.serving.ranking.ranking import Scored
from codequarry.serving.text.window import best_window
from codequarry.serving.tools.channel_answers import Answers, SearchPlan
from codequarry.serving.version.open import Bundle

SPARSE = "splade"
_EXPLAIN_BYTES = 2048
"""Largest explanation of a result, as JSON."""
_MAX_TERMS_CHARS = 300
_SHORT_REASON = 40
_LITTLE_TEXT = 220
"""Bytes of the file's text with which an explanation without lists never grows too large."""


@dataclass(frozen=True, slots=True)
class ExplainedRanking:
    """Ranking of a search, from which its results are explained."""

    plan: SearchPlan
    answers: Answers
    """Candidates by channel."""
    late: str
    """Decision about late interaction."""


def explain_result(ranked: ExplainedRanking, scored: Scored, row: ChunkRow) -> SearchResult:
    """Build a result with its explanation.

    Args:
        ranked: The ranking.
        scored: Score of the chunk and its parts.
        row: The chunk.

    Returns:
        The result.
    """
    plan = ranked.plan
    bundle, query = plan.bundle, plan.query
    explain = Explain(
        hit_reason=_reasons(ranked, scored, row),
        channels={
            name: ChannelScore(rank=part.rank, score=part.score, value=part.value, weight=part.weight)
            for name, part in scored.channels.items()
        },
        scoring=Scoring(
            method=plan.settings.fusion,
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
            late=ranked.late,
        ),
        scip=row.scip,
        ast=row.kind != "text",
        cst=row.cst,
        **_facts_about(bundle, row),
        tokens=_tokens(plan, scored, row),
        terms=_terms(plan, scored, row),
    )
    window = best_window(row.text, query.terms, MAX_SNIPPET_LINES)
    return SearchResult(
        id=str(row.chunk_id),
        title=present.title(row),
        url=present.url(row),
        snippet=present.window_lines(row.text, window.first, window.last),
        handle=handle_of(row.chunk_id, bundle.directory.chunk_ids),
        heading=enclosing_heading(bundle.catalog.index, row, window.last),
        snippet_line=row.start_line + window.first,
        score=scored.score,
        source=bundle.channels[scored.leader].source if scored.leader else "files",
        metadata=ResultMetadata(**present.location(row).model_dump(), explain=_within_bounds(explain)),
    )


class _Facts(TypedDict):
    """Fields of `Explain` about a chunk, its syntax and its file."""

    kinds: dict[str, int]
    leaves: dict[str, int]
    said: str


def _facts_about(bundle: Bundle, row: ChunkRow) -> _Facts:
    index, facts = bundle.catalog.index, bundle.facts
    place = int(index.rows_of([row.chunk_id])[0])
    counts = Counter(index.column("kind", index.definitions_of_row(place)).tolist())
    kinds = {index.texts[kind]: count for kind, count in sorted(counts.items())}
    kinds.pop("module", None)
    file = bundle.directory.find(row.repo, row.path)
    said = present.one_line(facts.said_of(file), MAX_SAID) if file is not None else ""
    return _Facts(kinds=kinds, leaves=facts.leaves_of(place), said=said)


def _evidence(found: Mapping[str, ranking.WeightedValue]) -> dict[str, Evidence]:
    return {name: Evidence(value=each.value, weight=each.weight) for name, each in found.items()}


def _tokens(plan: SearchPlan, scored: Scored, row: ChunkRow) -> list[TokenPair]:
    """Return the token pairs of a chunk that late interaction found."""
    bundle = plan.bundle
    channel = bundle.channels.get(LATE)
    if LATE not in scored.channels or not isinstance(channel, WarpChannel):
        return []
    definitions = bundle.catalog.definitions_in([row.chunk_id]).get(row.chunk_id, [])
    return channel.explain(plan.query, row, definitions, before=bundle.bytes_before(row))


def _terms(plan: SearchPlan, scored: Scored, row: ChunkRow) -> list[ImpactTerm]:
    """Return the terms of a chunk that learned sparse search found."""
    channel = plan.bundle.channels.get(SPARSE)
    if SPARSE not in scored.channels or not isinstance(channel, SpladeChannel):
        return []
    return channel.explain(plan.query, row)


def _within_bounds(explain: Explain) -> Explain:
    """Limit the size of an explanation: drop the weakest token pairs and terms, then shorten its texts."""
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
    """Return the size as JSON in bytes."""
    return len(json.dumps(to_wire(explain), ensure_ascii=False).encode())


def _join_terms(terms: Sequence[str]) -> str:
    """Join terms with commas; of many, show the first and the number of the others."""
    listed = ",".join(terms)
    if len(listed) <= _MAX_TERMS_CHARS:
        return listed
    shown = max(1, listed.count(",", 0, _MAX_TERMS_CHARS))
    return f"{','.join(terms[:shown])} and {len(terms) - shown} more"


def _reasons(ranked: ExplainedRanking, scored: Scored, row: ChunkRow) -> list[str]:
    answers, filters = ranked.answers, ranked.plan.request.filters
    reasons: list[str] = []
    if not scored.channels.keys().isdisjoint(DENSE_LEGS):
        reasons.append("embedding:cosine")
    if LATE in scored.channels:
        reasons.append("late_interaction:maxsim")
    if SPARSE in scored.channels:
        reasons.append("learned_sparse:impact")
    if not scored.channels.keys().isdisjoint({"bm25", *DENSE_LEGS}):
        terms = matched_terms(ranked.plan.query, [row.path, row.qualified_name, *row.symbols, row.text])
        by = "bm25" if "bm25" in scored.channels else "shared"
        reasons += [f"{by}:terms={_join_terms(terms)}"] if terms else []
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
        "filter:kinds": bool(filters.kinds),
    }
    return reasons + [reason for reason, applies in given.items() if applies]
