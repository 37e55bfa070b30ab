"""Answers of `go_to_definition`, `find_references` and `search_code` as text: one line a place, grouped by file."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from codequarry.schemas.wire.grep import CodeMatch, CodeSearchAnswer
from codequarry.schemas.wire.search import BundleInfo
from codequarry.schemas.wire.symbols import (
    DefinitionAnswer,
    DefinitionResult,
    ReferenceResult,
    ReferencesAnswer,
)
from codequarry.schemas.wording import counted
from codequarry.serving.render.lines import footer, place, shown_path

_BY_NAME = "by name"
"""Said of a place that neither an indexer nor its file resolves: another thing may have the same name."""


def definitions_text(answer: DefinitionAnswer) -> str:
    """Return the definitions as a model reads them: place, kind and name, signature, the first line of documentation.

    Args:
        answer: The answer.

    Returns:
        Two or three lines for each definition, then totals and limits.
    """
    lines = [line for result in answer.results for line in _definition(result, answer.bundle)]
    if not answer.results:
        lines.append("no such definition in this index")
    shown, total = len(answer.results), answer.total
    many = f"{shown} of {counted(total, 'definition')}; raise limit or give a qualified name" if shown < total else ""
    return "\n".join([*lines, *footer(answer.bundle, [one.uri for one in answer.results], [many], answer.limits)])


def _definition(result: DefinitionResult, bundle: BundleInfo) -> list[str]:
    where = place(shown_path(result.uri, bundle), result.body_start_line, result.body_end_line)
    lines = [f"{where}  {result.kind} {result.qualified_name or result.name}"]
    if result.signature and result.signature != result.name:
        lines.append(f"  {result.signature}")
    said = result.documentation.strip().split("\n", 1)[0]
    return [*lines, *([f"  {said}"] if said else [])]


def references_text(answer: ReferencesAnswer) -> str:
    """Return the references as a model reads them: resolved ones first, then those that share the name.

    Args:
        answer: The answer.

    Returns:
        A line for each file and each place in it; the definitions where there are several; totals and limits.
    """
    bundle, lines = answer.bundle, list[str]()
    for (uri, is_guess), results in groupby(answer.results, key=lambda one: (one.uri, one.evidence == _BY_NAME)):
        lines.append(shown_path(uri, bundle) + (f"  ({_BY_NAME})" if is_guess else ""))
        lines += [f"  {result.start_line + 1}: {result.preview.strip()}{_use(result)}" for result in results]
    if answer.definitions_total > 1:
        named = (
            f"{place(shown_path(one.uri, bundle), one.body_start_line, one.body_end_line)} {one.qualified_name}"
            for one in answer.definitions
        )
        lines.append(f"the name may mean {answer.definitions_total} definitions: " + " · ".join(named))
    if not answer.results:
        lines.append("no reference in this index")
    totals = answer.totals
    uses = [one for one in answer.results if one.roles != ["definition"]]
    many = f"{len(uses)} of {totals.all}: {totals.precise + totals.resolved} resolved, {totals.heuristic} {_BY_NAME}"
    return "\n".join([*lines, *footer(bundle, [one.uri for one in answer.results], [many], answer.limits)])


def _use(result: ReferenceResult) -> str:
    """Return how a place uses the name and in which definition; a plain read says nothing of itself."""
    roles = ", ".join(role for role in result.roles if role != "read")
    said = " ".join(part for part in (roles, result.enclosing and f"in {result.enclosing}") if part)
    return f"  [{said}]" if said else ""


def matches_text(answer: CodeSearchAnswer) -> str:
    """Return the matches as a model reads them, with their context where it was asked for.

    Args:
        answer: The answer.

    Returns:
        A line for each file and each line in it, then totals and limits.
    """
    lines: list[str] = []
    for uri, matches in groupby(answer.results, key=lambda one: one.uri):
        lines.append(shown_path(uri, answer.bundle))
        lines += _matches(list(matches))
    if not answer.results:
        lines.append("no match in what is indexed")
    least = "" if answer.total_is_exact else "at least "
    many = f"{least}{counted(answer.total, 'match', 'matches')} in {counted(answer.files, 'file')}"
    return "\n".join([*lines, *footer(answer.bundle, [one.uri for one in answer.results], [many], answer.limits)])


def _matches(matches: Sequence[CodeMatch]) -> list[str]:
    """Return the lines of one file: ``12: a match``, ``13- a line around it``; each line once."""
    shown: dict[int, str] = {}
    for match in matches:
        start = match.start_line - len(match.before)
        around = [*enumerate(match.before, start), *enumerate(match.after, match.end_line + 1)]
        for number, line in around:
            shown.setdefault(number, f"  {number + 1}- {line}")
        shown[match.start_line] = f"  {match.start_line + 1}: {match.preview}"
    return [shown[number] for number in sorted(shown)]
