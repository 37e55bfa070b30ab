"""Fetch: ids, handles and places in files to code, within a budget over the whole answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from codequarry.schemas.errors import CodequarryError, InvalidArgumentError, NotFoundError
from codequarry.schemas.ids import parse_wire_id
from codequarry.schemas.wire.search import (
    CHARS_PER_TOKEN,
    MAX_TOKENS_MAX,
    MAX_TOKENS_MIN,
    CodeNeighbours,
    ErrorBody,
    FetchAnswer,
    FetchObject,
    FetchRequest,
    LineSpan,
    ObjectMetadata,
)
from codequarry.serving.catalog import present
from codequarry.serving.catalog.catalog import ChunkRow
from codequarry.serving.catalog.handles import ids_of_handle
from codequarry.serving.text.arguments import clamp_argument
from codequarry.serving.tools.browse.file_references import FilePlace, find_place, looks_like_path
from codequarry.serving.tools.browse.file_text import (
    FileLines,
    NestedDefinition,
    around,
    beside,
    definitions_in,
    read_lines,
)
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.version.open import Bundle

MAX_NAMED = 100
"""Definitions of a file that ``symbols`` names."""
_MAX_ECHO = 300
_COMMIT = re.compile(r"[0-9a-fA-F]{7,64}")


def fetch(context: ToolContext, request: FetchRequest) -> FetchAnswer:
    """Answer a fetch.

    Args:
        context: Version, settings and the version before.
        request: References and options.

    Returns:
        The code.

    Raises:
        InvalidArgumentError: Not exactly one of ``id`` and ``objectIds`` is given, or ``ref`` is no commit.
        NotFoundError: ``id`` is not in the bundle.
        DeadlineError: No time is left to read.
    """
    if bool(request.id) == bool(request.objectIds):
        raise InvalidArgumentError(
            "id and objectIds: " + ("both are given" if request.id else "neither is given") + ", expected one of them",
            suggestion="give `id` for one reference, or `objectIds` for several",
        )
    if request.ref and not _COMMIT.fullmatch(request.ref):
        raise InvalidArgumentError(
            "ref: expected a commit of 7 to 64 hexadecimal digits", suggestion="leave it out to read what is indexed"
        )
    bundle, deadline = context.bundle, context.deadline.restart(context.settings.fetch_timeout_s)
    deadline.check()
    tokens, limits = clamp_argument("max_tokens", request.max_tokens, MAX_TOKENS_MIN, MAX_TOKENS_MAX)
    budget = _Budget(tokens * CHARS_PER_TOKEN)
    asked = list(dict.fromkeys(request.objectIds or [request.id]))
    if len(asked) < len(request.objectIds):
        limits.append(f"{len(request.objectIds) - len(asked)} repeated ids merged")
    numbers = {raw: parse_wire_id(raw) for raw in asked}
    rows = bundle.catalog.rows([number for number in numbers.values() if number is not None])
    pieces: list[_Piece | CodequarryError] = []
    for raw in asked:
        deadline.check()
        try:
            piece = _piece(context, raw, rows.get(numbers[raw] or 0))
            _check_ref(bundle, piece.repo, request.ref)
            pieces.append(piece)
        except (InvalidArgumentError, NotFoundError) as error:
            pieces.append(error)
    nested = definitions_in(bundle, {piece.file for piece in pieces if isinstance(piece, _Piece) and piece.file >= 0})
    objects: list[FetchObject] = []
    for raw, piece in zip(asked, pieces, strict=True):
        deadline.check()
        if isinstance(piece, CodequarryError):
            objects.append(FetchObject(id=present.safe_echo(raw), content="", error=error_body(piece)))
        else:
            objects.append(_object(raw, piece, nested.get(piece.file, []), request.resolve, budget))
    limits += _notes(bundle, asked, pieces, request.ref)
    if budget.cut:
        limits.append(
            f"{budget.cut} of {len(objects)} objects cut to stay within {budget.total // CHARS_PER_TOKEN} tokens; "
            "raise max_tokens or fetch fewer ids"
        )
    if request.objectIds:
        return FetchAnswer(objects=objects, limits=limits, bundle=bundle.info)
    return _single(objects[0], limits, bundle)


class _Piece(NamedTuple):
    """Code to be shown: a chunk, or lines of a file."""

    file: int
    repo: str
    uri: str
    lang: str
    first: int
    last: int
    text: str
    chunk: ChunkRow | None
    lines: FileLines | None
    place: FilePlace | None


class _Budget:
    """Budget of characters for the whole answer."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.left = total
        self.cut = 0

    def take(self, text: str) -> tuple[str, bool]:
        """Return as much of the text as fits, cut at a line end, and whether anything was cut.

        A first line longer than the whole budget is cut inside; otherwise it could never be read.
        """
        if len(text) <= self.left:
            self.left -= len(text)
            return text, False
        self.cut += 1
        end = text.rfind("\n", 0, self.left) + 1
        if not end and self.left == self.total:
            end = self.left
        # Later objects must not fill the gap before the one that was cut: the answer keeps the requested order.
        self.left = 0
        return text[:end], True


def _piece(context: ToolContext, raw: str, row: ChunkRow | None) -> _Piece:
    """Find what a reference means.

    Args:
        context: The version.
        raw: Reference as the caller sent it.
        row: Chunk whose id it is; None when it is the id of none.

    Returns:
        The code.

    Raises:
        InvalidArgumentError: The reference means several things.
        NotFoundError: It means nothing in this version.
    """
    bundle = context.bundle
    if row is not None:
        return _chunk(bundle, row)
    handle = ids_of_handle(raw.strip(), bundle.directory.chunk_ids)
    try:
        return _lines(bundle, find_place(bundle.directory, raw))
    except (InvalidArgumentError, NotFoundError):
        if not handle and looks_like_path(raw):
            raise
    if len(handle) > 1:
        raise InvalidArgumentError(
            f"handle {present.safe_echo(raw)!r} means {len(handle)} chunks",
            suggestion="give the whole handle, or a path",
        )
    if handle:
        return _chunk(bundle, bundle.catalog.rows(handle)[handle[0]])
    raise no_chunk(raw, bundle, context.version_before(parse_wire_id(raw) or 0))


def _chunk(bundle: Bundle, row: ChunkRow) -> _Piece:
    file = bundle.directory.find(row.repo, row.path)
    return _Piece(
        -1 if file is None else file,
        row.repo,
        row.uri,
        row.lang,
        row.start_line,
        row.end_line,
        row.text,
        row,
        None,
        None,
    )


def _lines(bundle: Bundle, place: FilePlace) -> _Piece:
    directory, (_, first, last, *_) = bundle.directory, place.reference
    lines = read_lines(bundle, place.file, max(first - 1, 0), last - 1 if last else None)
    repo, path, lang = (column[place.file] for column in (directory.repos, directory.paths, directory.langs))
    uri = f"{repo}/{path}"
    return _Piece(place.file, repo, uri, lang, lines.first, lines.last, lines.text, None, lines, place)


def _check_ref(bundle: Bundle, repo: str, ref: str) -> None:
    """Raise NotFoundError when a repository is indexed at another commit."""
    commit = bundle.info.commits.get(repo, "").removesuffix("+dirty")
    if ref and not (commit and commit.startswith(ref.lower())):
        at = f"commit {commit}" if commit else "no commit: it has no git history"
        raise NotFoundError(
            f"ref: repository {present.printable(repo)} is indexed at {at}", suggestion="leave ref out to read that"
        )


def no_chunk(raw: str, bundle: Bundle, before: str = "") -> NotFoundError:
    """Return the error for a reference that means no chunk.

    Args:
        raw: Reference as the caller sent it.
        bundle: The version.
        before: Earlier version that had the chunk; "" when none is known.

    Returns:
        The error.
    """
    name, now = present.safe_echo(raw), bundle.manifest.version
    if before:
        return NotFoundError(
            f"the index has moved on: chunk {name!r} was in version {before} and is not in {now}",
            suggestion="its code changed, moved or went; search again",
        )
    return NotFoundError(
        f"no chunk {name!r} in this version of the index",
        suggestion="take ids from the results of search; ids of changed code are gone after a reindex, so search again",
    )


def error_body(error: CodequarryError) -> ErrorBody:
    """Return the error in the form of answers."""
    return ErrorBody(code=error.code, message=error.message, suggestion=error.suggestion, retryable=error.retryable)


def _object(raw: str, piece: _Piece, nested: Sequence[NestedDefinition], resolve: str, budget: _Budget) -> FetchObject:
    text = {"full": piece.text, "summary": present.first_lines(piece.text), "metadata_only": ""}[resolve]
    content, truncated = budget.take(text)
    enclosing = around(nested, piece.first, piece.last)
    before, after = beside(nested, piece.first, piece.last, len(enclosing) + 1)
    blank = piece.text[: len(piece.text) - len(piece.text.lstrip())].count("\n") if resolve == "summary" else 0
    title, url, metadata = _location(piece, nested, enclosing)
    return FetchObject(
        id=raw if piece.chunk else present.printable(raw)[:_MAX_ECHO],
        title=title,
        url=url,
        content=content,
        metadata=ObjectMetadata(**metadata, truncated=truncated),
        surroundings=CodeNeighbours(
            enclosing=tuple(f"{one.row.kind} {one.row.name}" for one in enclosing),
            before=_span(before),
            after=_span(after),
            first_shown=piece.first + blank,
        ),
    )


def _location(
    piece: _Piece, nested: Sequence[NestedDefinition], enclosing: Sequence[NestedDefinition]
) -> tuple[str, str, dict[str, Any]]:
    """Return title, link and metadata of a piece."""
    if (row := piece.chunk) is not None:
        metadata: dict[str, Any] = {
            **present.location(row).model_dump(exclude_unset=True),
            "repo": row.repo,
            "kind": row.kind,
            "module": row.module,
            "qualified_name": row.qualified_name,
            "total_lines": row.end_line - row.start_line + 1,
        }
        return present.title(row), present.url(row), metadata
    lines, reference = piece.lines, piece.place.reference if piece.place else None
    assert lines is not None
    starting = [one for one in nested if piece.first <= one.first <= piece.last and one not in enclosing]
    names = list(dict.fromkeys(one.row.qualified_name for one in [*reversed(enclosing), *starting]))[:MAX_NAMED]
    metadata = {
        "uri": piece.uri,
        "start_line": piece.first,
        "end_line": piece.last,
        "start_byte": lines.start_byte,
        "end_byte": lines.end_byte,
        "lang": piece.lang,
        "symbols": [f"{lines.module}.{name}" if lines.module else name for name in names],
        "repo": piece.repo,
        "kind": "lines" if reference and reference.first else "file",
        "module": lines.module,
        "qualified_name": enclosing[-1].row.qualified_name if enclosing else "",
        "total_lines": lines.total,
    }
    return (
        present.range_title(piece.uri, piece.first, piece.last),
        f"{present.line_url(piece.uri, piece.first)}-L{piece.last + 1}",
        metadata,
    )


def _span(definition: NestedDefinition | None) -> LineSpan | None:
    if definition is None:
        return None
    label = f"{definition.row.kind} {definition.row.qualified_name}"
    return LineSpan(label=label, first=definition.first, last=definition.last)


def _notes(bundle: Bundle, asked: Sequence[str], pieces: Sequence[_Piece | CodequarryError], ref: str) -> list[str]:
    """Return what was read in another way than it was asked for."""
    notes: list[str] = []
    for raw, piece in zip(asked, pieces, strict=True):
        if not isinstance(piece, _Piece) or piece.place is None or piece.lines is None:
            continue
        reference = piece.place.reference
        if reference.last > piece.lines.total:
            notes.append(f"{present.safe_echo(raw)}: the file ends at line {piece.lines.total}")
        if piece.place.guessed:
            notes.append(f"{present.safe_echo(raw)}: read as {present.printable(piece.uri)}")
    if ref:
        repos = dict.fromkeys(piece.repo for piece in pieces if isinstance(piece, _Piece))
        dirty = [repo for repo in repos if bundle.info.commits.get(repo, "").endswith("+dirty")]
        notes += [f"files of {present.printable(repo)} differed from that commit when it was indexed" for repo in dirty]
    return notes


def _single(found: FetchObject, limits: list[str], bundle: Bundle) -> FetchAnswer:
    """Return the flat answer of a fetch by ``id``, with every metadata value as text."""
    if found.metadata is None:
        raise _raised(found.error)
    metadata = {
        name: ", ".join(value)
        if isinstance(value, list)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
        for name, value in found.metadata.model_dump(exclude_none=True).items()
    }
    return FetchAnswer(
        id=found.id,
        title=found.title,
        text=found.content,
        url=found.url,
        metadata=metadata,
        objects=[],
        limits=limits,
        bundle=bundle.info,
        one=found,
    )


def _raised(error: ErrorBody | None) -> CodequarryError:
    """Return the error of the one object that was asked for as an error of the call."""
    if error is None:
        return NotFoundError("no such chunk")
    kind = InvalidArgumentError if error.code == "INVALID_ARGUMENT" else NotFoundError
    return kind(error.message, suggestion=error.suggestion)
