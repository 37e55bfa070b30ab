"""Size of answers: their lean form, and token budgets.

Over a budget, explanations are cut first, then snippets, then the last results; notes report it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import BaseModel

from codequarry.schemas.wire.grep import CodeMatch
from codequarry.schemas.wire.pro import Finding
from codequarry.schemas.wire.search import (
    CHARS_PER_TOKEN,
    MAX_TOKENS_MAX,
    MAX_TOKENS_MIN,
    Explain,
    SearchResult,
    to_wire,
)
from codequarry.schemas.wire.symbols import ReferencesAnswer, ReferencesRequest
from codequarry.schemas.wording import counted
from codequarry.serving.text.arguments import clamp_argument

ResultT = TypeVar("ResultT", bound=BaseModel)

_SNIPPET_LINES = (4, 2, 1, 0)


def lean_references(request: ReferencesRequest, answer: ReferencesAnswer) -> ReferencesAnswer:
    """Return an answer with its definitions only where the question may mean several.

    Args:
        request: The request; it does not matter here.
        answer: Its whole answer.

    Returns:
        The answer.
    """
    return answer if answer.definitions_total > 1 else answer.model_copy(update={"definitions": []})


def fit_budget(
    results: Sequence[ResultT],
    max_tokens: int,
    shorter: Callable[[ResultT, int], ResultT],
    briefer: Callable[[ResultT], ResultT] | None = None,
) -> tuple[list[ResultT], list[str]]:
    """Cut results until they fit into a budget.

    Args:
        results: Results, best first.
        max_tokens: Budget; 0 for none.
        shorter: Shortens a result to at most that many lines of code.
        briefer: Shortens a result's explanation; applied to all when not all results fit as they are.

    Returns:
        The first results, shortened where needed, and notes about the cuts.
    """
    if not max_tokens:
        return list(results), []
    tokens, limits = clamp_argument("max_tokens", max_tokens, MAX_TOKENS_MIN, MAX_TOKENS_MAX)
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
        limits.append(
            f"{counted(shortened, 'snippet')} shortened to stay within {tokens} tokens; fetch reads whole chunks"
        )
    if len(kept) < len(results):
        limits.append(
            f"{len(results) - len(kept)} of {len(results)} results left out to stay within {tokens} tokens; "
            "raise max_tokens or narrow the filters"
        )
    return kept, limits


def shorter_result(result: SearchResult, lines: int) -> SearchResult:
    """Return a search result with at most ``lines`` lines of code."""
    return result.model_copy(update={"snippet": _first(result.snippet, lines), "code": _first(result.code, lines)})


def briefer_result(result: SearchResult) -> SearchResult:
    """Return a search result without the parts of its score; the reasons and ranks stay."""
    explain = result.metadata.explain
    told = {name: getattr(explain, name) for name in ("hit_reason", "channels", "scip", "ast", "cst")}
    metadata = result.metadata.model_copy(update={"explain": Explain(**told)})
    return result.model_copy(update={"metadata": metadata})


def shorter_match(match: CodeMatch, lines: int) -> CodeMatch:
    """Return a text match with at most ``lines`` lines of context on either side; its own line stays."""
    if not match.before and not match.after:
        return match
    around = {"before": match.before[max(0, len(match.before) - lines) :], "after": match.after[:lines]}
    return match.model_copy(update=around)


def shorter_finding(finding: Finding, lines: int) -> Finding:
    """Return a finding with at most ``lines`` lines in its preview."""
    return finding.model_copy(update={"preview": _first(finding.preview, lines)})


def briefer_finding(finding: Finding) -> Finding:
    """Return a finding without its pairs of tokens."""
    return Finding(**finding.model_dump(exclude={"tokens"}))


def _fitting(result: ResultT, left: int, shorter: Callable[[ResultT, int], ResultT]) -> ResultT | None:
    if _size(result) <= left:
        return result
    for lines in _SNIPPET_LINES:
        cut = shorter(result, lines)
        if _size(cut) <= left:
            return cut
    return None


def _size(result: BaseModel) -> int:
    """Return the size of a result on the wire in characters, with the comma behind it."""
    return len(json.dumps(to_wire(result), ensure_ascii=False, separators=(",", ":"))) + 1


def _first(text: str, lines: int) -> str:
    return "\n".join(text.split("\n")[:lines])
