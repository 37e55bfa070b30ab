"""Results of a search, lean or with their explanation: scores, reasons, matched terms, facts about the chunk."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypedDict

from codequarry.schemas.bundle.layout import DENSE_LEGS
from codequarry.schemas.wire.search import (
    LEAN_LINES,
    MAX_SNIPPET_LINES,
    WITH_CODE,
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
from codequarry.serving.catalog.headings import depends_on_lines, enclosing_heading
from codequarry.serving.channels.bm25 import matched_terms
from codequarry.serving.channels.splade import SparseChannel
from codequarry.serving.channels.warp.channel import LateChannel
from codequarry.serving.ranking import ranking
from codequarry.serving.ranking.late import LATE
from codequarry.serving.ranking.ranking import Scored
from codequarry.serving.text.window import Window, best_window
from codequarry.serving.tools.channel_answers import Answers, SearchPlan
from codequarry.serving.version.open import Bundle

SPARSE = "splade"
_EXPLAIN_BYTES = 2048
"""Largest explanation of a result, as JSON."""
_MAX_TERMS_CHARS = 300
_SHORT_REASON = 40
_LEAN_REASONS = 1
"""Reasons of a lean result that shows code; each result names the channel that found most as its `source`."""
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


def build_results(shown: Sequence[tuple[ExplainedRanking, Scored, ChunkRow]], *, code: bool) -> list[SearchResult]:
    """Build the results of a search, each with its explanation if the request asks for that.

    Args:
        shown: The ranking that found each result, its score and its chunk, best first.
        code: Whether the first results show code although no explanation was asked for.

    Returns:
        The results.
    """
    first = WITH_CODE if code else 0
    return [
        _explained(ranked, scored, row)
        if ranked.plan.request.explain
        else _lean(ranked, scored, row, code=number < first)
        for number, (ranked, scored, row) in enumerate(shown)
    ]


def _lean(ranked: ExplainedRanking, scored: Scored, row: ChunkRow, *, code: bool) -> SearchResult:
    """Build a result with what a client needs and no more; with lines that answer, if it shows code."""
    bundle, terms = ranked.plan.bundle, ranked.plan.query.terms
    window = Window(0, 0)
    if code or depends_on_lines(row):
        window = best_window(row.text, terms, MAX_SNIPPET_LINES)
    shown: dict[str, str] = {}
    reasons: list[str] = []
    if code:
        reasons = [one[:_SHORT_REASON] for one in islice(_reasons(ranked, scored, row), _LEAN_REASONS)]
        lines = present.window_lines(row.text, window.first, window.last)
        shown = {"code": lines, "snippet": present.window_lines(lines, *best_window(lines, terms, LEAN_LINES))}
    return SearchResult(
        id=str(row.chunk_id),
        title=present.title(row),
        url=present.url(row),
        score=round(scored.score, 3),
        source=bundle.channels[scored.leader].source if scored.leader else "files",
        metadata=ResultMetadata(
            uri=row.uri,
            start_line=row.start_line,
            end_line=row.end_line,
            lang=row.lang,
            symbols=present.symbols(row)[:1],
            explain=Explain(hit_reason=reasons),
        ),
        handle=handle_of(row.chunk_id, bundle.directory.chunk_ids),
        heading=enclosing_heading(bundle.catalog.index, row, window.last),
        code_line=row.start_line + window.first,
        **shown,
    )


def _explained(ranked: ExplainedRanking, scored: Scored, row: ChunkRow) -> SearchResult:
    """Build a result with its code, its exact score and the explanation of it."""
    lean = _lean(ranked, scored, row, code=True)
    explain = _within_bounds(_explain(ranked, scored, row))
    metadata = ResultMetadata(**present.location(row).model_dump(exclude_unset=True), explain=explain)
    return lean.model_copy(update={"snippet": lean.code, "score": scored.score, "metadata": metadata})


def _explain(ranked: ExplainedRanking, scored: Scored, row: ChunkRow) -> Explain:
    plan = ranked.plan
    return Explain(
        hit_reason=list(_reasons(ranked, scored, row)),
        channels={
            name: ChannelScore(rank=part.rank, score=part.score, value=part.value, weight=part.weight)
            for name, part in scored.channels.items()
        },
        scoring=Scoring(
            method=plan.settings.fusion,
            query_class=plan.query.kind,
            reason=plan.query.reason,
            chunk=_evidence(scored.chunk),
            file=_evidence(scored.file),
            factors=scored.factors,
            form=scored.form,
            form_on_file=scored.form_on_file,
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
        **_facts_about(plan.bundle, row),
        tokens=_tokens(plan, scored, row),
        terms=_terms(plan, scored, row),
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
    if LATE not in scored.channels or not isinstance(channel, LateChannel):
        return []
    definitions = bundle.catalog.definitions_in([row.chunk_id]).get(row.chunk_id, [])
    return channel.explain(plan.query, row, definitions, before=bundle.bytes_before(row))


def _terms(plan: SearchPlan, scored: Scored, row: ChunkRow) -> list[ImpactTerm]:
    """Return the terms of a chunk that learned sparse search found."""
    channel = plan.bundle.channels.get(SPARSE)
    if SPARSE not in scored.channels or not isinstance(channel, SparseChannel):
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


def _reasons(ranked: ExplainedRanking, scored: Scored, row: ChunkRow) -> Iterator[str]:
    """Yield the reasons why a chunk was found; matched terms take longest, so what precedes them costs little."""
    answers, filters = ranked.answers, ranked.plan.request.filters
    if not scored.channels.keys().isdisjoint(DENSE_LEGS):
        yield "embedding:cosine"
    if LATE in scored.channels:
        yield "late_interaction:maxsim"
    if SPARSE in scored.channels:
        yield "learned_sparse:impact"
    if not scored.channels.keys().isdisjoint({"bm25", *DENSE_LEGS}):
        terms = matched_terms(ranked.plan.query, [row.path, row.qualified_name, *row.symbols, row.text])
        by = "bm25" if "bm25" in scored.channels else "shared"
        yield from [f"{by}:terms={_join_terms(terms)}"] if terms else []
    yield from (
        answers[name].reasons[row.chunk_id] for name in scored.channels if row.chunk_id in answers[name].reasons
    )
    yield from (f"text:{name}" for name in scored.chunk)
    yield from ["file:name"] if "name_cover" in scored.file else []
    yield from [f"rerank:place {scored.fused_place} before"] if scored.fused_place else []
    given: Mapping[str, bool] = {
        f"filter:lang={row.lang}": bool(filters.lang),
        f"filter:repo={row.repo}": bool(filters.repos),
        "filter:include": bool(filters.include),
        "filter:exclude": bool(filters.exclude),
        "filter:symbols": bool(filters.symbols),
        "filter:kinds": bool(filters.kinds),
    }
    yield from (reason for reason, applies in given.items() if applies)
