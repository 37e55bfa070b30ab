"""Places over a fleet: matches of a text, definitions and references of all bundles in one list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TypeVar

from pydantic import Field

from codequarry.schemas.wire.grep import (
    MATCHES_MAX,
    MATCHES_MIN,
    CodeSearchAnswer,
    CodeSearchRequest,
)
from codequarry.schemas.wire.relations import RELATIONS_MAX, RelationsAnswer, RelationsRequest
from codequarry.schemas.wire.symbols import (
    DEFINITIONS_DEFAULT,
    DEFINITIONS_MAX,
    REFERENCES_MAX,
    DefinitionAnswer,
    DefinitionRequest,
    ReferenceResult,
    ReferencesAnswer,
    ReferencesRequest,
    ReferenceTotals,
)
from codequarry.serving.fleet.fleet_call import FleetCall
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.tools.definitions import go_to_definition
from codequarry.serving.tools.naming.meanings import CERTAINTY
from codequarry.serving.tools.references import find_references
from codequarry.serving.tools.relations.relations import relations
from codequarry.serving.tools.text_search.grep import search_code

ItemT = TypeVar("ItemT")


class ClassedMatches(CodeSearchAnswer):
    """Matches of one bundle, with what orders those of several."""

    classes: list[int] = Field(description="Rank of the class of each match's file: 1 for sources.")


def match_places(context: ToolContext, request: CodeSearchRequest) -> ClassedMatches:
    """Answer the tool ``search_code`` with the classes of files; raises as `search_code`."""
    answer, directory = search_code(context, request), context.bundle.directory
    files = [directory.find(*one.uri.split("/", 1)) for one in answer.results]
    ranks = [len(directory.class_rank) if file is None else int(directory.class_rank[file]) for file in files]
    return ClassedMatches(**{name: getattr(answer, name) for name in answer.model_fields_set}, classes=ranks)


def merge_matches(call: FleetCall, request: CodeSearchRequest) -> CodeSearchAnswer:
    """Answer the tool ``search_code``: sources of all bundles come before tests of any; raises as `search_code`."""
    replies = call.each(match_places, request)
    limit = min(max(request.limit, MATCHES_MIN), MATCHES_MAX)
    places = [
        ((rank, one.uri, one.start_line, one.start_column), one)
        for _, each in replies.answers
        for rank, one in zip(each.classes, each.results, strict=True)
    ]
    ordered = [one for _, one in sorted(places, key=lambda place: place[0])]
    limits = replies.limits(lambda answer: answer.total)
    if len(ordered) > limit:
        limits.append(f"the first {limit} matches are shown; raise limit or narrow the filters")
    shown = ordered[:limit]
    answers = [answer for _, answer in replies.answers]
    return CodeSearchAnswer(
        results=shown,
        total=sum(answer.total for answer in answers),
        total_is_exact=all(answer.total_is_exact for answer in answers) and not call.missing,
        files=sum(answer.files for answer in answers),
        limits=limits,
        bundle=call.info(one.uri for one in shown),
    )


def merge_definitions(call: FleetCall, request: DefinitionRequest) -> DefinitionAnswer:
    """Answer the tool ``go_to_definition``: the best of each bundle first; raises as `go_to_definition`."""
    replies = call.each(go_to_definition, request)
    limit = min(max(request.limit, 1), DEFINITIONS_MAX)
    found = list(_by_turns([answer.results for _, answer in replies.answers]))
    limits = replies.limits(lambda answer: answer.total)
    if len(found) > limit:
        limits.append(f"the first {limit} definitions; raise limit or narrow with filters")
    shown = found[:limit]
    return DefinitionAnswer(
        results=shown,
        total=sum(answer.total for _, answer in replies.answers),
        limits=limits,
        bundle=call.info(one.uri for one in shown),
    )


def merge_references(call: FleetCall, request: ReferencesRequest) -> ReferencesAnswer:
    """Answer the tool ``find_references``: the surest of all bundles first; raises as `find_references`."""
    replies = call.each(find_references, request)
    # Where a bundle defines the name, the places of others that only hold the word say nothing.
    defining = [answer for _, answer in replies.answers if answer.definitions_total]
    answers = defining or [answer for _, answer in replies.answers]
    limit = min(max(request.limit, 1), REFERENCES_MAX)
    found = sorted(_by_turns([answer.results for answer in answers]), key=_certainty)
    totals = ReferenceTotals(
        precise=sum(answer.totals.precise for answer in answers),
        resolved=sum(answer.totals.resolved for answer in answers),
        heuristic=sum(answer.totals.heuristic for answer in answers),
    )
    limits = replies.limits(lambda answer: answer.results or answer.definitions)
    if len(found) > limit:
        limits.append(f"the first {limit} of {totals.all} references; raise limit or narrow with filters")
    shown = found[:limit]
    definitions = list(_by_turns([answer.definitions for answer in answers]))[:DEFINITIONS_DEFAULT]
    return ReferencesAnswer(
        results=shown,
        definitions=definitions,
        definitions_total=sum(answer.definitions_total for answer in answers),
        totals=totals,
        limits=limits,
        bundle=call.info(one.uri for one in (*shown, *definitions)),
    )


def merge_relations(call: FleetCall, request: RelationsRequest) -> RelationsAnswer:
    """Answer the tool ``relations``: those of each bundle together, as no relation leaves one; raises as it does."""
    replies = call.each(relations, request)
    answers = [answer for _, answer in replies.answers]
    limit = min(max(request.limit, 1), RELATIONS_MAX)
    found = [one for answer in answers for one in answer.results]
    limits = replies.limits(lambda answer: answer.results or answer.targets)
    if len(found) > limit:
        limits.append(f"the first {limit} relations; raise limit or narrow with filters")
    return RelationsAnswer(
        targets=[target for answer in answers for target in answer.targets][:DEFINITIONS_DEFAULT],
        results=found[:limit],
        total=sum(answer.total for answer in answers),
        limits=limits,
        bundle=call.info(one.uri for one in found[:limit]),
    )


def _certainty(one: ReferenceResult) -> tuple[bool, int]:
    """Return the order of references: definitions, then the surest."""
    return "definition" not in one.roles, CERTAINTY.index(one.evidence)


def _by_turns(lists: Sequence[Iterable[ItemT]]) -> Iterator[ItemT]:
    """Yield the first of each list, then the second of each, and so on."""
    for row in zip_longest(*lists):
        yield from (one for one in row if one is not None)
