"""The token budget of search answers: explanations shrink, then snippets, then the last results go, and it is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import BaseModel

from codequarry.schemas.answers import Finding
from codequarry.schemas.code_search import CodeMatch
from codequarry.schemas.tools import CHARS_PER_TOKEN, MAX_TOKENS_MAX, MAX_TOKENS_MIN, Explain, SearchResult, to_wire
from codequarry.serving.arguments import clamped

ResultT = TypeVar("ResultT", bound=BaseModel)

_SNIPPET_LINES = (4, 2, 1, 0)


def within_budget(
    results: Sequence[ResultT],
    max_tokens: int,
    limits: list[str],
    shorter: Callable[[ResultT, int], ResultT],
    briefer: Callable[[ResultT], ResultT] | None = None,
) -> list[ResultT]:
    """The first results that fit into a budget; ``limits`` is told what was cut.

    max_tokens: 0 for no budget.
    shorter: a result with at most so many lines of code.
    briefer: a result with a shorter explanation, taken of all when not all results fit as they are.
    """
    if not max_tokens:
        return list(results)
    tokens = clamped("max_tokens", max_tokens, MAX_TOKENS_MIN, MAX_TOKENS_MAX, limits)
    left, shortened = tokens * CHARS_PER_TOKEN, 0
    if briefer is not None and sum(map(_size, results)) > left:
        results = [briefer(result) for result in results]
        limits.append(f"explanations cut to reasons and ranks to stay within {tokens} tokens")
    kept: list[ResultT] = []
    for result in results:
        fitting = _fitting(result, left, shorter)
        if fitting is None:
            break
        shortened += fitting is not result
        left -= _size(fitting)
        kept.append(fitting)
    if shortened:
        limits.append(f"{shortened} snippets shortened to stay within {tokens} tokens; fetch reads whole chunks")
    if len(kept) < len(results):
        limits.append(
            f"{len(results) - len(kept)} of {len(results)} results left out to stay within {tokens} tokens; "
            "raise max_tokens or narrow the filters"
        )
    return kept


def shorter_result(result: SearchResult, lines: int) -> SearchResult:
    """A search result with at most so many lines in its snippet."""
    return result.model_copy(update={"snippet": _first(result.snippet, lines)})


def briefer_result(result: SearchResult) -> SearchResult:
    """A search result that tells why it was found and where it came, not how its score was made."""
    explain = result.metadata.explain
    told = {name: getattr(explain, name) for name in ("hit_reason", "channels", "scip", "ast", "cst")}
    metadata = result.metadata.model_copy(update={"explain": Explain(**told)})
    return result.model_copy(update={"metadata": metadata})


def shorter_match(match: CodeMatch, lines: int) -> CodeMatch:
    """A text match with at most so many lines of context on either side; its own line stays."""
    if not match.before and not match.after:
        return match
    around = {"before": match.before[max(0, len(match.before) - lines) :], "after": match.after[:lines]}
    return match.model_copy(update=around)


def shorter_finding(finding: Finding, lines: int) -> Finding:
    """A finding with at most so many lines in its preview."""
    return finding.model_copy(update={"preview": _first(finding.preview, lines)})


def _fitting(result: ResultT, left: int, shorter: Callable[[ResultT, int], ResultT]) -> ResultT | None:
    if _size(result) <= left:
        return result
    for lines in _SNIPPET_LINES:
        cut = shorter(result, lines)
        if _size(cut) <= left:
            return cut
    return None


def _size(result: BaseModel) -> int:
    """Characters of the result on the wire, and of the comma behind it."""
    return len(json.dumps(to_wire(result), ensure_ascii=False, separators=(",", ":"))) + 1


def _first(text: str, lines: int) -> str:
    return "\n".join(text.split("\n")[:lines])
