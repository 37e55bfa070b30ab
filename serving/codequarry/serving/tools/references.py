"""Look-up of references by name or by place.

Precise references are what SCIP says of the target, of what it overrides, and of what overrides it. Heuristic ones are
identifiers of the same name without SCIP data, in the repositories and related languages of the definitions, less those
that can mean only something else.
"""

from __future__ import annotations

import numpy as np

from codequarry.schemas.catalog.symbol_views import CALL, DEFINITION, IMPORT, TYPE, WRITE
from codequarry.schemas.wire.symbols import (
    REFERENCES_MAX,
    ReferenceResult,
    ReferencesAnswer,
    ReferencesRequest,
    ReferenceTotals,
)
from codequarry.serving.catalog import present
from codequarry.serving.catalog.definition_rows import Places
from codequarry.serving.catalog.filters import allowed_files, members
from codequarry.serving.text.arguments import clamp_argument
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.tools.definitions import MAX_NAME_CHARS, described, outside, own_places, place_of, unlisted
from codequarry.serving.tools.naming.meanings import CERTAINTY
from codequarry.serving.tools.naming.meant_places import MeantPlaces, tell_apart
from codequarry.serving.tools.naming.written_names import written_uses
from codequarry.serving.tools.scopes import scoped
from codequarry.serving.tools.symbol_target import ResolvedTarget, resolve
from codequarry.serving.version.open import Bundle

MAX_SHOWN = 10

_ROLES = {"call": CALL, "import": IMPORT, "type": TYPE, "write": WRITE}
_OTHER_THAN_READ = CALL | IMPORT | TYPE | WRITE
_PREVIEW_BEFORE = 60
_TOTALS = ("precise", "resolved", "heuristic")


def find_references(context: ToolContext, request: ReferencesRequest) -> ReferencesAnswer:
    """Answer a look-up of references.

    Args:
        context: Version and deadline.
        request: Name or place, and filters.

    Returns:
        References, precise ones first.

    Raises:
        InvalidArgumentError: As `resolve`, and for filters.
        NotFoundError: As `resolve`.
        DeadlineError: No time is left.
    """
    bundle, deadline, request = context.bundle, context.deadline, scoped(request)
    limit, limits = clamp_argument("limit", request.limit, 1, REFERENCES_MAX)
    files = allowed_files(request.filters, bundle.directory)
    deadline.check()
    target = resolve(bundle, request)
    found = target.found
    if target.undefined and request.precision == "all":
        return _of_undefined(context, target, request, limit, limits)
    places = named_places(bundle, target, heuristic=request.precision == "all")
    others = unlisted(bundle, target, places) if target.others else []
    limits += [*target.notes, *outside(bundle, target, dict(others))]
    if found.total > len(found.rows):
        limits.append(f"the references of {len(found.rows)} of {found.total} definitions; give a qualified name")
    deadline.check()
    named = order_places(bundle, _filtered(places.where(~places.defining), request.role, files))
    uses = tell_apart(bundle, found.rows, named, deadline)
    if uses.unread:
        limits.append(f"{uses.unread} of {len(named.file)} places lie in files that were not read: known by name alone")
    count = len(uses.certainty)
    totals = ReferenceTotals(**dict(zip(_TOTALS, np.bincount(uses.certainty, minlength=3).tolist(), strict=True)))
    shown = uses.where(np.argsort(uses.certainty, kind="stable")[:limit])
    if request.include_definitions:
        own = np.isin(places.target_id, [*(row.target_id for row in found.rows), *target.others])
        defining = _filtered(places.where(places.defining & own), "any", files)
        shown = shown.behind(order_places(bundle, defining), limit)
    if count > limit:
        limits.append(f"the first {limit} of {count} references; raise limit or narrow with filters")
    deadline.check()
    return ReferencesAnswer(
        results=_results(bundle, target, shown, {one: result.qualified_name for one, result in others}),
        definitions=[*described(bundle, target, MAX_SHOWN), *(result for _, result in others)][:MAX_SHOWN],
        definitions_total=found.total + len(others),
        totals=totals,
        limits=limits,
        bundle=bundle.info,
    )


def _of_undefined(
    context: ToolContext, target: ResolvedTarget, request: ReferencesRequest, limit: int, limits: list[str]
) -> ReferencesAnswer:
    """Answer with the places where a name is written that the index does not define."""
    uses, said = written_uses(context, target.undefined, request)
    notes = [*limits, *target.notes, *said]
    if len(uses) > limit:
        notes.append(f"the first {limit} of {len(uses)} places; raise limit or narrow with filters")
    return ReferencesAnswer(
        results=uses[:limit],
        definitions=[],
        definitions_total=0,
        totals=ReferenceTotals(precise=0, resolved=0, heuristic=len(uses)),
        limits=notes,
        bundle=context.bundle.info,
    )


def named_places(bundle: Bundle, target: ResolvedTarget, *, heuristic: bool) -> Places:
    """Return the places that use or define the target and its related targets.

    Args:
        bundle: The version.
        target: The target.
        heuristic: Take places that are known by name alone as well.

    Returns:
        Places, in no order.
    """
    rows = target.found.rows
    meant = bundle.symbols.related([*dict.fromkeys(row.target_id for row in rows), *target.others])
    names = list(dict.fromkeys(row.name_id for row in rows)) if heuristic else []
    places = bundle.symbols.places([*meant, *names])
    kindred = bundle.directory.related_files(np.array([row.file for row in rows], np.int64))[places.file]
    of_meaning = members(places.target_id, np.array(sorted(meant), np.int64))
    of_name = members(places.target_id, np.array(sorted(names), np.int64))
    by_name = np.where(places.defining, of_meaning, of_name) & kindred & heuristic
    return own_places(places.where(np.where(places.precise, of_meaning, by_name)), target)


def _filtered(places: Places, role: str, files: np.ndarray | None) -> Places:
    keep = np.ones(len(places.file), np.bool_) if files is None else files[places.file]
    if role == "read":
        keep &= places.roles & _OTHER_THAN_READ == 0
    elif role != "any":
        keep &= places.roles & _ROLES[role] != 0
    return places.where(keep)


def order_places(bundle: Bundle, places: Places) -> Places:
    """Sort places: precise first, then by class of the file, then by place."""
    rank, at = (column[places.file] for column in (bundle.directory.class_rank, bundle.directory.place))
    return places.where(np.lexsort((places.start_column, places.start_line, at, rank, ~places.precise)))


def _results(bundle: Bundle, target: ResolvedTarget, uses: MeantPlaces, names: dict[int, str]) -> list[ReferenceResult]:
    """Return the answers for places, in their order.

    Args:
        bundle: The version.
        target: Target of the look-up.
        uses: Places to show.
        names: Qualified names of targets without a row, by ``target_id``.

    Returns:
        Results.
    """
    places = uses.places
    texts = bundle.catalog.texts(places.chunk_id.tolist())
    names = {**names, **{row.target_id: row.qualified_name for row in target.found.rows}}
    bare = {row.name_id: row.name for row in target.found.rows}
    resolved = {row.symbol_id: row.qualified_name for row in target.found.rows}
    unnamed = set(places.target_id[places.precise].tolist()) - set(names)
    if unnamed:
        names |= bundle.symbols.qualified_names(unnamed)
    results: list[ReferenceResult] = []
    judged = zip(places.rows(), uses.certainty.tolist(), uses.meaning.tolist(), strict=True)
    for (target_id, file, precise, roles, line, column, end_line, end_column, enclosing, chunk), rank, number in judged:
        first, text = texts.get(chunk, (line, ""))
        bare_name = resolved.get(number) or bare.get(target_id, "")
        meant = names.get(target_id, "") if precise or roles & DEFINITION else bare_name
        results.append(
            ReferenceResult(
                **place_of(bundle, file, precise, (line, column, end_line, end_column), chunk),
                roles=_role_names(roles),
                preview=_preview(text.split("\n")[line - first], column),
                enclosing=present.one_line(bundle.symbols.enclosing_name(enclosing), MAX_NAME_CHARS),
                refers_to=present.one_line(meant, MAX_NAME_CHARS),
                evidence=CERTAINTY[rank],
            )
        )
    return results


def _role_names(roles: int) -> list[str]:
    """Return roles by name; a use without another role is a read.

    >>> _role_names(CALL | 8), _role_names(8), _role_names(DEFINITION)
    (['call'], ['read'], ['definition'])
    """
    if roles & DEFINITION:
        return ["definition"]
    return [name for name, bit in _ROLES.items() if roles & bit] or ["read"]


def _preview(written: str, column: int) -> str:
    """Return the line, or the part of a long line around the column, in printable characters."""
    if len(written) <= present.MAX_LINE_CHARS:
        return present.one_line(written)
    start = min(max(column - _PREVIEW_BEFORE, 0), len(written) - present.MAX_LINE_CHARS)
    return present.one_line(("…" if start else "") + written[start:])
