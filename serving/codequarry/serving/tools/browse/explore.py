"""Tool ``explore``: the code that matters for a task, and what relates to it, within a budget.

Most of the budget goes to code: each place of a search grows to the definition around it, the best place first. What
calls that code, what it uses and what tests it follow as one line each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from codequarry.schemas.wire.explore import ExploreAnswer, ExplorePlace, ExploreRemainder, ExploreRequest, PlaceRole
from codequarry.schemas.wire.search import (
    CHARS_PER_TOKEN,
    MAX_TOKENS_MAX,
    MAX_TOKENS_MIN,
    SearchFilters,
    SearchRequest,
    SearchResult,
)
from codequarry.serving.catalog import present
from codequarry.serving.catalog.filters import allowed_files
from codequarry.serving.text.arguments import clamp_argument
from codequarry.serving.text.query_classes import analyze_query
from codequarry.serving.text.window import best_window
from codequarry.serving.tools.browse.excerpts import Excerpt, Excerpts
from codequarry.serving.tools.browse.file_text import NestedDefinition, around, definitions_in
from codequarry.serving.tools.browse.related_places import (
    CALLABLE,
    RELATED,
    TYPE_LIKE,
    RelatedPlace,
    RelatedSearch,
    Subject,
    related_places,
)
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.tools.scopes import scoped
from codequarry.serving.tools.search import find_results
from codequarry.serving.version.open import Bundle

_PLACES = 20
"""Results of the search that are shown, the budget permitting."""
_SUBJECTS = 8
"""Definitions whose callers, callees, types and tests are looked up."""
_SHARE_OF_CODE = 0.9
"""Part of the budget that matches have before related places."""
_SHARES = (0.4, 0.25)
"""Part of it that the first match may take, and each other one."""
_WINDOWS = (24, 12, 6)
"""Lines of a place that is too long to be shown whole."""
_SHARE_OF_REST, _LEAST_REST = 0.04, 160
"""Part of the budget that is kept for what is left out, and least characters."""
_NAMED_REST = (2, 6)
"""Related places of a role, and matches, that are named where they are left out."""
_COUNT_CHARS = 24
"""Of the number of places that are left out of a role, and what they are."""
_COMMIT_CHARS = 16
"""Of a commit behind the name of its repository."""


def explore(context: ToolContext, request: ExploreRequest) -> ExploreAnswer:
    """Answer an exploration.

    Args:
        context: Version, settings and deadline.
        request: Task, budget and filters.

    Returns:
        Places, matches first.

    Raises:
        InvalidArgumentError: The query or the filters cannot be used.
        DeadlineError: No channel answered in time, or no time is left.
    """
    bundle = context.bundle
    tokens, limits = clamp_argument("max_tokens", request.max_tokens, MAX_TOKENS_MIN, MAX_TOKENS_MAX)
    files = allowed_files(scoped(request).filters, bundle.directory)
    results, notes = _search(context, request)
    limits += notes
    chars = tokens * CHARS_PER_TOKEN
    kept_notes = _first_notes(limits, chars // 3)
    rest = max(int(chars * _SHARE_OF_REST), _LEAST_REST)
    left = chars - rest - sum(len(f"note: {note}\n") for note in kept_notes) - _commits_chars(bundle)
    exploration = _Exploration(context, Excerpts(bundle, max(left, 0)), analyze_query(request.query).terms)
    missed = exploration.show(results, _SHARE_OF_CODE, _SHARES)
    subjects = exploration.subjects(results)
    context.deadline.check()
    search = RelatedSearch(bundle, files, exploration.excerpts.holds)
    found, common = related_places(search, subjects)
    context.deadline.check()
    related, unshown = _fit_related(exploration.excerpts, bundle, found)
    exploration.show(missed, 1.0, (1.0, 1.0))
    # A later excerpt may show the line of a related place as well: it is not said twice.
    related = [place for place in related if not _is_inside(exploration.excerpts, bundle, place)]
    spans: dict[PlaceRole, list[str]] = {"match": [_span_of(one) for one in exploration.unfinished(results)]}
    for one in unshown:
        spans.setdefault(one.role, []).append(_place_of(bundle, one.file, one.first, one.last))
    if common:
        note = f"uses are left out, as other definitions share the name: find_references {', '.join(common[:3])}"
        kept_notes += _first_notes([note], exploration.excerpts.left)
    return ExploreAnswer(
        places=[*(_match(exploration.excerpts, bundle, one) for one in exploration.excerpts.shown), *related],
        left_out=_remainders(spans, rest),
        limits=kept_notes,
        bundle=bundle.info,
    )


def _search(context: ToolContext, request: ExploreRequest) -> tuple[list[SearchResult], list[str]]:
    """Return the results of the search for the task, best first, and its notes."""
    filters = SearchFilters(**request.filters.model_dump())
    # With explanations, so with the lines that answer of all results.
    asked = SearchRequest(query=request.query, top_k=_PLACES, filters=filters, scope_id=request.scope_id, explain=True)
    if not context.settings.reranker_always:
        context = replace(context, reranker=None)
    answer = find_results(context, scoped(asked))
    return answer.results, answer.limits


@dataclass(frozen=True, slots=True)
class _Exploration:
    """Matches of one call and their definitions."""

    context: ToolContext
    excerpts: Excerpts
    terms: Collection[str]
    """Index terms of the task."""

    def show(self, results: Sequence[SearchResult], share: float, each: tuple[float, float]) -> list[SearchResult]:
        """Show as many results as fit, the first ones first.

        Args:
            results: Results of the search, best first.
            share: Part of what is left of the budget that they may take.
            each: Part of that for the first of them, and for each other one; a short window may have more.

        Returns:
            Results for which no room is left.
        """
        bundle, whole = self.context.bundle, self.excerpts.left
        least = whole - int(whole * share)
        nested = definitions_in(bundle, {self._file(one) for one in results})
        missed: list[SearchResult] = []
        for number, result in enumerate(results):
            self.context.deadline.check()
            room = self.excerpts.left - least
            most = min(int(whole * share * each[min(number, 1)]), room)
            *longer, shortest = self._candidates(result, nested.get(self._file(result), []))
            if not any(self.excerpts.add(one, most) for one in longer) and not self.excerpts.add(shortest, room):
                missed.append(result)
        return missed

    def unfinished(self, results: Sequence[SearchResult]) -> list[SearchResult]:
        """Return the results that are not shown whole."""
        chunks = [(one, self._chunk(one)) for one in results]
        return [
            result
            for result, chunk in chunks
            if not any(one.holds(chunk.file, chunk.first) and one.last >= chunk.last for one in self.excerpts.shown)
        ]

    def subjects(self, results: Sequence[SearchResult]) -> list[Subject]:
        """Return the definitions in which the shown results lie, in their order."""
        nested = definitions_in(self.context.bundle, {self._file(one) for one in results})
        found: dict[int, Subject] = {}
        for result in results:
            file, (first, last) = self._file(result), _focus(result)
            shown = next((one for one in self.excerpts.shown if one.holds(file, first)), None)
            definition = _innermost(nested.get(file, []), first, last)
            if shown is not None and definition is not None and len(found) < _SUBJECTS:
                found.setdefault(definition.row.symbol_id, Subject(definition.row, shown))
        return list(found.values())

    def _file(self, result: SearchResult) -> int:
        repo, _, path = result.metadata.uri.partition("/")
        file = self.context.bundle.directory.find(repo, path)
        assert file is not None
        return file

    def _chunk(self, result: SearchResult) -> Excerpt:
        found, heading = result.metadata, present.one_line(result.heading)
        return self.excerpts.trim(Excerpt(self._file(result), found.start_line, found.end_line, heading))

    def _candidates(self, result: SearchResult, nested: Sequence[NestedDefinition]) -> list[Excerpt]:
        """Return the ways to show a result, the longest first: the definition around it, its chunk, windows."""
        chunk = self._chunk(result)
        ways = [chunk]
        if (definition := _innermost(nested, *_focus(result))) is not None:
            first, last = min(chunk.first, definition.first), max(chunk.last, definition.last)
            ways.insert(0, self.excerpts.trim(chunk._replace(first=first, last=last)))
        text = "\n".join(self.excerpts.code(chunk))
        for size in _WINDOWS:
            window = best_window(text, self.terms, size)
            ways.append(chunk._replace(first=chunk.first + window.first, last=chunk.first + window.last))
        return ways


def _focus(result: SearchResult) -> tuple[int, int]:
    """Return the lines of a result that answer best, 0-based."""
    return result.code_line, result.code_line + result.code.count("\n")


def _innermost(nested: Sequence[NestedDefinition], first: int, last: int) -> NestedDefinition | None:
    """Return the innermost definition at the end of some lines, else at their beginning; of code if there is one."""
    for line in (last, first):
        found = around(nested, line, line)
        code = [one for one in found if one.row.kind in CALLABLE or one.row.kind in TYPE_LIKE]
        if found:
            return (code or found)[-1]
    return None


def _fit_related(
    excerpts: Excerpts, bundle: Bundle, found: Sequence[RelatedPlace]
) -> tuple[list[ExplorePlace], list[RelatedPlace]]:
    """Take related places as long as there is room, and return the others too."""
    shown: list[ExplorePlace] = []
    unshown: list[RelatedPlace] = []
    for one in found:
        uri = _uri(bundle, one.file)
        if not unshown:
            code = one.code or present.one_line(excerpts.lines(one.file, one.first, one.first)[0])
            place = ExplorePlace(
                uri=uri, start_line=one.first, end_line=one.last, role=one.role, symbol=one.of,
                by_name=one.by_name, code=code,
            )  # fmt: skip
            cost = related_chars(place)
            if cost <= excerpts.left:
                excerpts.left -= cost
                shown.append(place)
                continue
        unshown.append(one)
    return sorted(shown, key=lambda one: RELATED.index(one.role)), unshown


def related_chars(place: ExplorePlace) -> int:
    """Return the characters of a related place in an answer's text, at most."""
    where = f"{place.uri}:{place.start_line + 1}-{place.end_line + 1}"
    return len(f"{where}  {place.role} of {place.symbol} (by name): {place.code}\n")


def _is_inside(excerpts: Excerpts, bundle: Bundle, place: ExplorePlace) -> bool:
    repo, _, path = place.uri.partition("/")
    file = bundle.directory.find(repo, path)
    return file is not None and excerpts.holds(file, place.start_line)


def _match(excerpts: Excerpts, bundle: Bundle, excerpt: Excerpt) -> ExplorePlace:
    return ExplorePlace(
        uri=_uri(bundle, excerpt.file),
        start_line=excerpt.first,
        end_line=excerpt.last,
        role="match",
        symbol=excerpt.heading,
        by_name=False,
        code="\n".join(excerpts.code(excerpt)),
    )


def _uri(bundle: Bundle, file: int) -> str:
    return f"{bundle.directory.repos[file]}/{bundle.directory.paths[file]}"


def _place_of(bundle: Bundle, file: int, first: int, last: int) -> str:
    return f"{present.printable(_uri(bundle, file))}:{first + 1}" + (f"-{last + 1}" if last > first else "")


def _span_of(result: SearchResult) -> str:
    found = result.metadata
    return f"{present.printable(found.uri)}:{found.start_line + 1}-{found.end_line + 1}"


def _remainders(spans: Mapping[PlaceRole, Sequence[str]], room: int) -> list[ExploreRemainder]:
    """Count what is left out of each role, and name as many places as there is room for."""
    spans = {role: own for role, own in spans.items() if own}
    room -= len("left out: ") + sum(_COUNT_CHARS for _ in spans)
    found: list[ExploreRemainder] = []
    for role, own in spans.items():
        places: list[str] = []
        for place in own[: _NAMED_REST[role == "match"]]:
            room -= len(f"{place}, ") + (0 if places else len(" (fetch )"))
            if room < 0:
                break
            places.append(place)
        found.append(ExploreRemainder(role=role, count=len(own), places=places))
    return found


def _first_notes(notes: Sequence[str], room: int) -> list[str]:
    """Return the first notes, as many as there is room for."""
    kept: list[str] = []
    for note in notes:
        room -= len(f"note: {note}\n")
        if room >= 0:
            kept.append(note)
    return kept


def _commits_chars(bundle: Bundle) -> int:
    """Return the characters of the commits at the end of an answer's text, at most."""
    names = sorted(map(len, bundle.info.commits), reverse=True)[:3]
    return sum(length + _COMMIT_CHARS for length in names) + 1
