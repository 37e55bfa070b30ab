"""Addresses of the page, each of which asks the tools that agents ask, through the same door.

Whoever may call a tool may read here what it tells, and nothing else. Every address is read with GET and changes
nothing. The page asks no other host, and holds no script but its own file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

import anyio.to_thread
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import BaseModel
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from codequarry.schemas.times import age_s, in_words
from codequarry.schemas.wire.describe import DescribeAnswer
from codequarry.schemas.wire.health import HealthAnswer
from codequarry.schemas.wire.list_files import ListFilesAnswer
from codequarry.schemas.wire.outline import OutlineAnswer
from codequarry.schemas.wire.relations import RelationsAnswer
from codequarry.schemas.wire.search import ErrorBody, FetchAnswer, SearchAnswer
from codequarry.schemas.wire.symbols import DefinitionAnswer, ReferencesAnswer
from codequarry.serving.page.call_graph import drawn_graph
from codequarry.serving.page.highlighting import highlighted
from codequarry.serving.page.score_parts import score_parts
from codequarry.serving.request.admission import Call, begin_call, current_call

if TYPE_CHECKING:
    from codequarry.serving.server.mcp import ToolServer

AnswerT = TypeVar("AnswerT", bound=BaseModel)
View = Callable[["PageCaller", QueryParams], Awaitable[str]]

_FOLDER = Path(__file__).parent
_STATIC = {"/page/style.css": ("style.css", "text/css"), "/page/page.js": ("page.js", "text/javascript")}
_LINES = 400
"""Lines of a file on one page."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_REALM = 'Basic realm="codequarry: any name, and your token as the password", charset="UTF-8"'


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

    def __init__(self, server: ToolServer) -> None:
        """Prepare questions.

        Args:
            server: Server whose tools answer.
        """
        self._server, self._client = server, current_call().client

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


def add_page(server: ToolServer, statuses: Mapping[str, int], *, authenticated: bool) -> frozenset[str]:
    """Add the page to a server.

    Args:
        server: Server whose application gets the addresses, and whose tools answer.
        statuses: HTTP status by the code of an error.
        authenticated: Callers need a token, which a browser sends as a password.

    Returns:
        Paths at which a password counts as a token.
    """
    views: dict[str, View] = {"/": _search, "/file": _file, "/folder": _folder, "/symbol": _symbol, "/index": _index}
    for path, view in views.items():
        server.custom_route(path, methods=["GET"], include_in_schema=False)(
            _endpoint(server, view, statuses, authenticated=authenticated)
        )
    for path, (name, kind) in _STATIC.items():
        server.custom_route(path, methods=["GET"], include_in_schema=False)(_static(name, kind))
    return frozenset(views)


def _endpoint(
    server: ToolServer, view: View, statuses: Mapping[str, int], *, authenticated: bool
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        if authenticated and not request.user.is_authenticated:
            return HTMLResponse(
                await _render("error.html", title="A token is needed", message="This index needs a token.",
                        suggestion="Give any name, and the token as the password."),
                401, {**_HEADERS, "WWW-Authenticate": _REALM},
            )  # fmt: skip
        try:
            html = await view(PageCaller(server), request.query_params)
        except PageRefusal as refusal:
            error = refusal.error
            template = "refusal.html" if request.query_params.get("part") else "error.html"
            html = await _render(template, title="No answer", message=error.message, suggestion=error.suggestion)
            return HTMLResponse(html, statuses[error.code], _HEADERS)
        return HTMLResponse(html, headers=_HEADERS)

    return answer


def _static(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    content = (_FOLDER / "static" / name).read_bytes()

    async def answer(_request: Request) -> Response:
        return Response(content, media_type=kind, headers=_HEADERS)

    return answer


async def _search(asker: PageCaller, given: QueryParams) -> str:
    fields = {name: given.get(name, "").strip() for name in ("q", "repo", "lang", "path")}
    found: SearchAnswer | None = None
    if fields["q"]:
        filters = {
            key: [fields[name]]
            for key, name in (("repos", "repo"), ("lang", "lang"), ("include", "path"))
            if fields[name]
        }
        found = await asker.ask(SearchAnswer, "search", query=fields["q"], filters=filters, explain=True)
    if given.get("part") == "results":
        return await _render("results.html", found=found)
    described = await asker.ask(DescribeAnswer, "describe_index")
    return await _render("search.html", title=fields["q"] or "Search", fields=fields, found=found, described=described)


async def _file(asker: PageCaller, given: QueryParams) -> str:
    uri, line = given.get("path", ""), _number(given.get("line", "1"))
    first = _number(given.get("start", "")) if "start" in given else (line - 1) // _LINES * _LINES + 1
    asked = await asker.ask(FetchAnswer, "fetch", objectIds=[f"{uri}:{first}-{first + _LINES - 1}"], max_tokens=16_000)
    found = asked.objects[0]
    if found.error is not None or found.metadata is None:
        raise PageRefusal(found.error or ErrorBody(code="NOT_FOUND", message="", suggestion="", retryable=False))
    outlined = await asker.ask(OutlineAnswer, "outline", path=found.metadata.uri, depth=4, limit=400)
    here = found.metadata
    return await _render(
        "file.html", title=here.uri, uri=here.uri, crumbs=_crumbs(here.uri), lang=here.lang,
        code=found.content.removesuffix("\n"), first=here.start_line + 1,
        asked=line if "line" in given else 0,
        total=here.total_lines, step=_LINES,
        definitions=outlined.files[0].definitions if outlined.files else [], bundle=asked.bundle,
    )  # fmt: skip


async def _folder(asker: PageCaller, given: QueryParams) -> str:
    path = given.get("path", "").strip("/")
    found = await asker.ask(ListFilesAnswer, "list_files", pattern=path, depth=1, limit=1000)
    return await _render("folder.html", title=path or "All repositories", crumbs=_crumbs(path), found=found)


async def _symbol(asker: PageCaller, given: QueryParams) -> str:
    name, at = given.get("name", "").strip(), given.get("at", "").strip()
    target = {"uri": at} if at else {"symbol": name}
    if not (name or at):
        return await _render("symbol.html", title="A name", name="", defined=None, used=None, graph=None)
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
    return await _render("symbol.html", title=shown or at, name=shown or at, defined=defined, used=used, graph=graph)


async def _index(asker: PageCaller, given: QueryParams) -> str:
    described = await asker.ask(DescribeAnswer, "describe_index")
    health = await asker.ask(HealthAnswer, "healthz")
    return await _render("index.html", title="Index", described=described, health=health)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 9 and int(text) else 1


def _crumbs(uri: str) -> list[tuple[str, str]]:
    """Return (name, path) of each folder around a path and of the path itself."""
    parts = uri.split("/") if uri else []
    return [(part, "/".join(parts[: number + 1])) for number, part in enumerate(parts)]


def _link(page: str, /, **query: object) -> str:
    return f"{page}?{urlencode(query)}"


def _file_link(uri: str, line: int) -> str:
    return f"{_link('/file', path=uri, line=line)}#L{line}"


async def _render(template: str, **context: object) -> str:
    """Fill a template, in a thread: colours take long, and the calls of agents wait for the event loop."""
    return await anyio.to_thread.run_sync(_templates().get_template(template).render, context)


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    templates.globals.update(
        link=_link, file_link=_file_link, highlighted=highlighted, score_parts=score_parts, age_s=age_s
    )
    templates.filters["in_words"] = in_words
    return templates
