"""Views of the page: what each address shows, as HTML, from the answers of the tools that agents ask.

They are read by browsers over HTTP and, within the clients of MCP that show apps, as resources.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel
from starlette.datastructures import QueryParams

from codequarry.schemas.wire.describe import DescribeAnswer
from codequarry.schemas.wire.health import HealthAnswer
from codequarry.schemas.wire.list_files import ListFilesAnswer
from codequarry.schemas.wire.outline import OutlineAnswer
from codequarry.schemas.wire.relations import RelationsAnswer
from codequarry.schemas.wire.search import ErrorBody, FetchAnswer, SearchAnswer
from codequarry.schemas.wire.symbols import DefinitionAnswer, ReferencesAnswer
from codequarry.serving.page.call_graph import drawn_graph
from codequarry.serving.page.rendering import render
from codequarry.serving.request.admission import Call, begin_call, current_call

if TYPE_CHECKING:
    from codequarry.serving.server.mcp import ToolServer

AnswerT = TypeVar("AnswerT", bound=BaseModel)
View = Callable[["PageCaller", QueryParams], Awaitable[str]]

_LINES = 400
"""Lines of a file on one page."""
_FIELDS = {"repo": "repos", "lang": "lang", "path": "include"}
"""Filters of a search that have a field each, by the name in the address."""
_LISTS = _FIELDS | {"exclude": "exclude", "symbol": "symbols", "kind": "kinds"}
"""Filters that take several values."""
_OPTIONS = {"limit": "top_k", "channel": "channel", "scope": "scope_id"}
"""Other arguments of a search."""


class PageRefusal(Exception):
    """An answer that is an error, as the tool gave it."""

    def __init__(self, error: ErrorBody) -> None:
        """Keep the error.

        Args:
            error: Its kind, and what to do.
        """
        super().__init__(error.message)
        self.error = error


class PageCaller:
    """The tools, for one request of a browser."""

    def __init__(self, server: ToolServer, *, keeper: bool = False) -> None:
        """Prepare questions.

        Args:
            server: Server whose tools answer.
            keeper: There are pages about versions and requests, and the caller may see them.
        """
        self._server, self._client = server, current_call().client
        self.keeper = keeper

    async def ask(self, kind: type[AnswerT], name: str, /, **arguments: Any) -> AnswerT:
        """Ask a tool.

        Args:
            kind: Kind of its answer.
            name: Name of the tool.
            **arguments: Arguments of the call.

        Returns:
            The answer.

        Raises:
            PageRefusal: The tool refuses or fails.
        """
        begin_call(Call(client=self._client))
        kept: list[BaseModel] = []
        result = await self._server.own[name].run(arguments, kept.append)
        if not kept:
            raise PageRefusal(ErrorBody.model_validate((result.structured_content or {})["error"]))
        answer = kept[0]
        assert isinstance(answer, kind)
        return answer


async def show_search(asker: PageCaller, given: QueryParams) -> str:
    query = given.get("q", "").strip()
    lists = {name: [value.strip() for value in given.getlist(name) if value.strip()] for name in _LISTS}
    options = {name: given[name] for name in ("ref", *_OPTIONS) if given.get(name)}
    found: SearchAnswer | None = None
    if query:
        filters: dict[str, Any] = {_LISTS[name]: values for name, values in lists.items() if values}
        filters |= {name: value for name, value in options.items() if name == "ref"}
        others: dict[str, Any] = {_OPTIONS[name]: value for name, value in options.items() if name in _OPTIONS}
        if "top_k" in others:
            others["top_k"] = _number(others["top_k"])
        found = await asker.ask(SearchAnswer, "search", query=query, filters=filters, explain=True, **others)
    if given.get("part") == "results":
        return await render("results.html", found=found)
    fields = {"q": query} | {name: lists[name].pop(0) if lists[name] else "" for name in _FIELDS}
    kept = [(name, value) for name, values in lists.items() for value in values] + list(options.items())
    described = await asker.ask(DescribeAnswer, "describe_index")
    return await render(
        "search.html", title=query or "Search", fields=fields, kept=kept, found=found, described=described
    )


async def show_file(asker: PageCaller, given: QueryParams) -> str:
    uri, line = given.get("path", ""), _number(given.get("line", "1"))
    first = _number(given.get("start", "")) if "start" in given else (line - 1) // _LINES * _LINES + 1
    asked = await asker.ask(FetchAnswer, "fetch", objectIds=[f"{uri}:{first}-{first + _LINES - 1}"], max_tokens=16_000)
    found = asked.objects[0]
    if found.error is not None or found.metadata is None:
        raise PageRefusal(found.error or ErrorBody(code="NOT_FOUND", message="", suggestion="", retryable=False))
    outlined = await asker.ask(OutlineAnswer, "outline", path=found.metadata.uri, depth=4, limit=400)
    here = found.metadata
    return await render(
        "file.html", title=here.uri, uri=here.uri, crumbs=_crumbs(here.uri), lang=here.lang,
        code=found.content.removesuffix("\n"), first=here.start_line + 1,
        asked=line if "line" in given else 0,
        total=here.total_lines, step=_LINES,
        definitions=outlined.files[0].definitions if outlined.files else [], bundle=asked.bundle,
    )  # fmt: skip


async def show_folder(asker: PageCaller, given: QueryParams) -> str:
    path = given.get("path", "").strip("/")
    found = await asker.ask(ListFilesAnswer, "list_files", pattern=path, depth=1, limit=1000)
    return await render("folder.html", title=path or "All repositories", crumbs=_crumbs(path), path=path, found=found)


async def show_symbol(asker: PageCaller, given: QueryParams) -> str:
    name, at = given.get("name", "").strip(), given.get("at", "").strip()
    target = {"uri": at} if at else {"symbol": name}
    if not (name or at):
        return await render("symbol.html", title="A name", name="", defined=None, used=None, graph=None)
    defined = await asker.ask(DefinitionAnswer, "go_to_definition", limit=20, **target)
    used = await asker.ask(ReferencesAnswer, "find_references", limit=200, **target)
    shown = defined.results[0].qualified_name if defined.results else name
    graph = None
    if defined.results:
        place = f"{defined.results[0].uri}:{defined.results[0].start_line + 1}"
        callers = await asker.ask(RelationsAnswer, "relations", kind="callers", target=place, depth=1, limit=60)
        callees = await asker.ask(RelationsAnswer, "relations", kind="callees", target=place, depth=1, limit=60)
        if callers.results or callees.results:
            graph = drawn_graph(shown, callers.results, callees.results)
    return await render("symbol.html", title=shown or at, name=shown or at, defined=defined, used=used, graph=graph)


async def show_index(asker: PageCaller, given: QueryParams) -> str:
    described = await asker.ask(DescribeAnswer, "describe_index")
    health = await asker.ask(HealthAnswer, "healthz")
    return await render("index.html", title="Index", described=described, health=health, keeper=asker.keeper)


VIEWS: dict[str, View] = {
    "/": show_search, "/file": show_file, "/folder": show_folder, "/symbol": show_symbol, "/index": show_index,
}  # fmt: skip
"""Views that every reader may have, by path."""


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 9 and int(text) else 1


def _crumbs(uri: str) -> list[tuple[str, str]]:
    """Return (name, path) of each folder around a path and of the path itself."""
    parts = uri.split("/") if uri else []
    return [(part, "/".join(parts[: number + 1])) for number, part in enumerate(parts)]
