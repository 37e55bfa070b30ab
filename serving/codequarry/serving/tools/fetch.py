"""Fetch: ids to code, within a budget over the whole answer."""

from __future__ import annotations

from codequarry.schemas.errors import CodequarryError, InvalidArgumentError, NotFoundError
from codequarry.schemas.ids import parse_wire_id
from codequarry.schemas.wire.search import (
    CHARS_PER_TOKEN,
    MAX_TOKENS_MAX,
    MAX_TOKENS_MIN,
    ErrorBody,
    FetchAnswer,
    FetchObject,
    FetchRequest,
    ObjectMetadata,
)
from codequarry.serving.catalog import present
from codequarry.serving.catalog.catalog import ChunkRow
from codequarry.serving.text.arguments import clamp_argument
from codequarry.serving.tools.context import ToolContext
from codequarry.serving.version.open import Bundle


def fetch(context: ToolContext, request: FetchRequest) -> FetchAnswer:
    """Answer a fetch.

    Args:
        context: Version, settings and the version before.
        request: Ids and options.

    Returns:
        Code of the chunks.

    Raises:
        InvalidArgumentError: Not exactly one of ``id`` and ``objectIds`` is given.
        NotFoundError: ``id`` is not in the bundle.
        DeadlineError: No time is left to read.
    """
    if bool(request.id) == bool(request.objectIds):
        raise InvalidArgumentError(
            "id and objectIds: " + ("both are given" if request.id else "neither is given") + ", expected one of them",
            suggestion="give `id` for one chunk, or `objectIds` for several",
        )
    bundle = context.bundle
    context.deadline.restart(context.settings.fetch_timeout_s).check()
    tokens, limits = clamp_argument("max_tokens", request.max_tokens, MAX_TOKENS_MIN, MAX_TOKENS_MAX)
    budget = _Budget(tokens * CHARS_PER_TOKEN)
    asked = list(dict.fromkeys(request.objectIds or [request.id]))
    if len(asked) < len(request.objectIds):
        limits.append(f"{len(request.objectIds) - len(asked)} repeated ids merged")
    numbers = {raw: parse_wire_id(raw) for raw in asked}
    rows = bundle.catalog.rows([number for number in numbers.values() if number is not None])
    objects = [
        _fetched(raw, rows[number], request.resolve, budget)
        if (number := numbers[raw] or 0) in rows
        else _missing(raw, bundle, context.version_before(number))
        for raw in asked
    ]
    if budget.cut:
        limits.append(
            f"{budget.cut} of {len(objects)} objects cut to stay within {budget.total // CHARS_PER_TOKEN} tokens; "
            "raise max_tokens or fetch fewer ids"
        )
    if request.objectIds:
        return FetchAnswer(objects=objects, limits=limits, bundle=bundle.info)
    return _single(objects[0], limits, bundle)


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


def _missing(raw: str, bundle: Bundle, before: str) -> FetchObject:
    name, now = present.safe_echo(raw), bundle.manifest.version
    if before:
        error = NotFoundError(
            f"the index has moved on: chunk {name!r} was in version {before} and is not in {now}",
            suggestion="its code changed, moved or went; search again",
        )
    else:
        error = NotFoundError(
            f"no chunk {name!r} in this version of the index",
            suggestion="take ids from the results of search; ids of changed code are gone after a reindex, "
            "so search again",
        )
    return FetchObject(id=name, content="", error=error_body(error))


def error_body(error: CodequarryError) -> ErrorBody:
    """Return the error in the form of answers."""
    return ErrorBody(code=error.code, message=error.message, suggestion=error.suggestion, retryable=error.retryable)


def _fetched(raw: str, row: ChunkRow, resolve: str, budget: _Budget) -> FetchObject:
    text = {"full": row.text, "summary": present.first_lines(row.text), "metadata_only": ""}[resolve]
    content, truncated = budget.take(text)
    return FetchObject(
        id=raw,
        title=present.title(row),
        url=present.url(row),
        content=content,
        metadata=ObjectMetadata(
            **present.location(row).model_dump(),
            repo=row.repo,
            kind=row.kind,
            module=row.module,
            qualified_name=row.qualified_name,
            truncated=truncated,
            total_lines=row.end_line - row.start_line + 1,
        ),
    )


def _single(found: FetchObject, limits: list[str], bundle: Bundle) -> FetchAnswer:
    """Return the flat answer of a fetch by ``id``, with every metadata value as text."""
    if found.metadata is None:
        error = found.error
        raise NotFoundError(error.message if error else "no such chunk", suggestion=error.suggestion if error else "")
    metadata = {
        name: ", ".join(value)
        if isinstance(value, list)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
        for name, value in found.metadata.model_dump().items()
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
    )
