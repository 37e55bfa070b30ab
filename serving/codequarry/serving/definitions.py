"""Where something is defined: one look-up by name or by place."""

from __future__ import annotations

from codequarry.schemas.symbol_tools import (
    DEFINITIONS_MAX,
    DefinitionAnswer,
    DefinitionRequest,
    DefinitionResult,
    SymbolPlace,
)
from codequarry.serving import present
from codequarry.serving.arguments import clamped
from codequarry.serving.bundle import Bundle
from codequarry.serving.deadline import Deadline
from codequarry.serving.filters import allowed_files
from codequarry.serving.symbol_tables import Places
from codequarry.serving.symbol_target import Target, resolve

MAX_NAME_CHARS = 300
MAX_DOCUMENTATION_CHARS = 600


def go_to_definition(bundle: Bundle, request: DefinitionRequest, deadline: Deadline) -> DefinitionAnswer:
    """Answer a definition look-up.

    Raises InvalidArgumentError, NotFoundError: as `resolve`, and for filters. DeadlineError: no time left.
    """
    limits: list[str] = []
    limit = clamped("limit", request.limit, 1, DEFINITIONS_MAX, limits)
    files = allowed_files(request.filters, bundle.directory)
    deadline.check()
    target = resolve(bundle, request, request.kind)
    found = target.definitions if files is None else target.definitions.where(files[target.definitions.file])
    if len(found.symbol_id) < len(target.definitions.symbol_id):
        limits.append(f"{len(target.definitions.symbol_id) - len(found.symbol_id)} more are outside of the filters")
    deadline.check()
    others = [] if request.kind else unlisted(bundle, target)
    results = described(bundle, target._replace(definitions=found), limit) + others
    return DefinitionAnswer(
        results=results[:limit],
        total=len(found.symbol_id) + len(others),
        limits=[*limits, *target.notes, *outside(bundle, target)],
        bundle=bundle.info,
    )


def described(bundle: Bundle, target: Target, limit: int) -> list[DefinitionResult]:
    """The best definitions of a target, of those that have a row."""
    ids = target.definitions.symbol_id[:limit].tolist()
    rows = bundle.symbols.rows(ids)
    return [
        DefinitionResult(
            **place_of(
                row.repo, row.path, row.lang, row.precise,
                row.start_line, row.start_column, row.end_line, row.end_column, row.chunk_id,
            ).model_dump(),
            name=present.one_line(row.name, MAX_NAME_CHARS),
            qualified_name=present.one_line(row.qualified_name, MAX_NAME_CHARS),
            kind=row.kind,
            signature=present.one_line(row.signature, MAX_NAME_CHARS),
            documentation=present.paragraphs(row.documentation, MAX_DOCUMENTATION_CHARS),
            body_start_line=row.body_start_line,
            body_end_line=row.body_end_line,
        )
        for row in (rows[one] for one in ids if one in rows)
    ]  # fmt: skip


def unlisted(bundle: Bundle, target: Target) -> list[DefinitionResult]:
    """Where the locals and parameters of a target are defined, in the order of the file."""
    if not target.others:
        return []
    places = own_places(bundle.symbols.places(target.others, definitions=True), target)
    names = bundle.symbols.qualified_names(places.enclosing_id)
    results: list[DefinitionResult] = []
    for row in zip(*(column.tolist() for column in places), strict=True):
        target_id, file, precise, _, line, column, end_line, end_column, enclosing, chunk = row
        repo, path, lang = bundle.directory.repos[file], bundle.directory.paths[file], bundle.directory.langs[file]
        written = bundle.catalog.line(repo, path, line)
        name = present.one_line(written[column:end_column].decode("utf-8", "replace"), MAX_NAME_CHARS)
        around = present.one_line(names.get(enclosing, ""), MAX_NAME_CHARS)
        results.append(
            DefinitionResult(
                **place_of(repo, path, lang, precise, line, column, end_line, end_column, chunk).model_dump(),
                name=name,
                qualified_name=f"{around}.{name}" if around else name,
                kind="local" if target_id < 0 else "parameter",
                signature=present.one_line(written.decode("utf-8", "replace")),
                documentation="",
                body_start_line=line,
                body_end_line=end_line,
            )
        )
    return results


def own_places(places: Places, target: Target) -> Places:
    """The places without those of another file's locals, which share the numbers."""
    return places.where((places.target_id >= 0) | (places.file == target.file))


def outside(bundle: Bundle, target: Target) -> list[str]:
    """What to say of a target that the bundle does not define."""
    symbols = bundle.symbols.outside([one for one in target.others if one >= 0])
    return [f"defined outside of this index: {present.one_line(symbol)}" for symbol in symbols]


def place_of(
    repo: str, path: str, lang: str, precise: bool, line: int, column: int, end_line: int, end_column: int, chunk: int
) -> SymbolPlace:
    """A place as answers show it; lines and columns are 0-based."""
    uri = f"{repo}/{path}"
    return SymbolPlace(
        title=present.line_title(uri, line),
        url=present.line_url(uri, line),
        uri=uri,
        start_line=line,
        start_column=column,
        end_line=end_line,
        end_column=end_column,
        lang=lang,
        chunk_id=str(chunk),
        precise="precise" if precise else "heuristic",
    )
