"""Look-up of definitions by name or by place."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from codequarry.schemas.kinds import stored_kinds
from codequarry.schemas.wire.symbols import (
    DEFINITIONS_MAX,
    DefinitionAnswer,
    DefinitionRequest,
    DefinitionResult,
)
from codequarry.serving.catalog import present
from codequarry.serving.catalog.definition_rows import Places
from codequarry.serving.catalog.filters import allowed_files
from codequarry.serving.text.arguments import clamp_argument
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.tools.scopes import scoped
from codequarry.serving.tools.symbol_target import ResolvedTarget, resolve
from codequarry.serving.version.open import Bundle

MAX_NAME_CHARS = 300
MAX_DOCUMENTATION_CHARS = 600


def go_to_definition(context: ToolContext, request: DefinitionRequest) -> DefinitionAnswer:
    """Answer a definition look-up.

    Args:
        context: Version and deadline.
        request: Name or place, and filters.

    Returns:
        Definitions, best first.

    Raises:
        InvalidArgumentError: As `resolve`, and for filters.
        NotFoundError: As `resolve`.
        DeadlineError: No time is left.
    """
    bundle, deadline, request = context.bundle, context.deadline, scoped(request)
    limit, limits = clamp_argument("limit", request.limit, 1, DEFINITIONS_MAX)
    files = allowed_files(request.filters, bundle.directory)
    deadline.check()
    kinds = [] if request.kind in ("any", "") else stored_kinds([request.kind])
    target = resolve(bundle, request, kinds, files)
    deadline.check()
    others = unlisted(bundle, target, bundle.symbols.places(target.others)) if target.others else []
    return DefinitionAnswer(
        results=[*described(bundle, target, limit), *(result for _, result in others)][:limit],
        total=target.found.total + len(others),
        limits=[*limits, *target.notes, *outside(bundle, target, dict(others))],
        bundle=bundle.info,
    )


def described(bundle: Bundle, target: ResolvedTarget, limit: int) -> list[DefinitionResult]:
    """Return the best definitions of a target, among those that have a row."""
    return [
        DefinitionResult(
            **place_of(bundle, row.file, row.precise, row.span, row.chunk_id),
            name=present.one_line(row.name, MAX_NAME_CHARS),
            qualified_name=present.one_line(row.qualified_name, MAX_NAME_CHARS),
            kind=present.one_line(row.kind),
            signature=present.one_line(row.signature, MAX_NAME_CHARS),
            documentation=present.paragraphs(row.documentation, MAX_DOCUMENTATION_CHARS),
            body_start_line=row.body_start_line,
            body_end_line=row.body_end_line,
        )
        for row in target.found.rows[:limit]
    ]


def unlisted(bundle: Bundle, target: ResolvedTarget, places: Places) -> list[tuple[int, DefinitionResult]]:
    """Return (target_id, definition) of the locals and parameters of a target, in source order.

    Args:
        bundle: The version.
        target: Target of the look-up.
        places: Places of the target; may hold more.

    Returns:
        Pairs of target id and definition.
    """
    found = own_places(places.where(places.defining & np.isin(places.target_id, target.others)), target)
    texts = bundle.catalog.texts(found.chunk_id.tolist())
    results: list[tuple[int, DefinitionResult]] = []
    for target_id, file, precise, _, line, column, end_line, end_column, enclosing, chunk in found.rows():
        first, text = texts[chunk]
        if line > first:
            written = text.split("\n")[line - first].encode()
        else:  # the chunk may begin inside of the line
            written = bundle.catalog.line(bundle.directory.repos[file], bundle.directory.paths[file], line)
        name = present.one_line(written[column:end_column].decode("utf-8", "replace"), MAX_NAME_CHARS)
        around = present.one_line(bundle.symbols.enclosing_name(enclosing), MAX_NAME_CHARS)
        result = DefinitionResult(
            **place_of(bundle, file, precise, (line, column, end_line, end_column), chunk),
            name=name,
            qualified_name=f"{around}.{name}" if around else name,
            kind="local" if target_id < 0 else "parameter",
            signature=present.one_line(written.decode("utf-8", "replace")),
            documentation="",
            body_start_line=line,
            body_end_line=end_line,
        )
        results.append((target_id, result))
    return results


def own_places(places: Places, target: ResolvedTarget) -> Places:
    """Return the places without those of another file's locals, which use the same numbers."""
    return places.where((places.target_id >= 0) | (places.file == target.file))


def outside(bundle: Bundle, target: ResolvedTarget, defined: Container[int]) -> list[str]:
    """Return notes about targets that the bundle does not define.

    Args:
        bundle: The version.
        target: Target of the look-up.
        defined: The ``target_id`` of targets that it defines.

    Returns:
        Notes.
    """
    others = [one for one in target.others if one not in defined]
    symbols = bundle.symbols.outside(others) if others else []
    return [f"defined outside of this index: {present.one_line(symbol)}" for symbol in symbols]


def place_of(bundle: Bundle, file: int, precise: bool, span: Sequence[int], chunk: int) -> dict[str, Any]:
    """Return the fields of a `SymbolPlace`.

    Args:
        bundle: The version.
        file: Number of the file in the directory.
        precise: SCIP found the place.
        span: Start line and column, end line and column, 0-based.
        chunk: Id of the chunk.

    Returns:
        Values by field.
    """
    line, column, end_line, end_column = span
    uri = f"{bundle.directory.repos[file]}/{bundle.directory.paths[file]}"
    return {
        "title": present.line_title(uri, line),
        "url": present.line_url(uri, line),
        "uri": uri,
        "start_line": line,
        "start_column": column,
        "end_line": end_line,
        "end_column": end_column,
        "lang": bundle.directory.langs[file],
        "chunk_id": str(chunk),
        "precise": "precise" if precise else "heuristic",
    }
