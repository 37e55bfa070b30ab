"""Addresses of the page, each of which asks the tools that agents ask, through the same door.

Whoever may call a tool may read here what it tells, and nothing else. Every address is read with GET and changes
nothing. The page asks no other host, and holds no script but its own file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from codequarry.schemas.errors import CodequarryError, NotFoundError
from codequarry.serving.page.keeper_views import KeeperViews, KeptRecords
from codequarry.serving.page.reader_views import VIEWS, PageCaller, PageRefusal, View
from codequarry.serving.page.rendering import render, static_file
from codequarry.serving.server.scoped_token import scope_of_request

if TYPE_CHECKING:
    from codequarry.serving.server.mcp import ToolServer

_STATIC = {"/page/style.css": ("style.css", "text/css"), "/page/page.js": ("page.js", "text/javascript")}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_REALM = 'Basic realm="codequarry: any name, and your token as the password", charset="UTF-8"'


def add_page(
    server: ToolServer, statuses: Mapping[str, int], *, authenticated: bool, kept: KeptRecords | None
) -> frozenset[str]:
    """Add the page to a server.

    Args:
        server: Server whose application gets the addresses, and whose tools answer.
        statuses: HTTP status by the code of an error.
        authenticated: Callers need a token, which a browser sends as a password.
        kept: What the pages about versions and requests read; None where there are no such pages.

    Returns:
        Paths at which a password counts as a token.
    """
    page = _Page(server, statuses, authenticated=authenticated, kept=kept is not None)
    views = dict(VIEWS)
    if kept is not None:
        keeper = KeeperViews(kept)
        views |= {
            "/versions": _for_keepers(keeper.show_versions),
            "/versions/difference": _for_keepers(keeper.show_difference),
            "/asked": _for_keepers(keeper.show_requests),
        }
    for path, view in views.items():
        server.custom_route(path, methods=["GET"], include_in_schema=False)(page.endpoint(view))
    for path, (name, kind) in _STATIC.items():
        server.custom_route(path, methods=["GET"], include_in_schema=False)(_static(name, kind))
    return frozenset(views)


class _Page:
    """Server, callers and the form of errors, which every address shares."""

    def __init__(self, server: ToolServer, statuses: Mapping[str, int], *, authenticated: bool, kept: bool) -> None:
        self._server, self._statuses, self._authenticated, self._kept = server, statuses, authenticated, kept

    def endpoint(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            if self._authenticated and not request.user.is_authenticated:
                return HTMLResponse(
                    await render("error.html", title="A token is needed", message="This index needs a token.",
                            suggestion="Give any name, and the token as the password."),
                    401, {**_HEADERS, "WWW-Authenticate": _REALM},
                )  # fmt: skip
            try:
                html = await view(PageCaller(self._server, keeper=self._is_keeper(request)), request.query_params)
            except (PageRefusal, CodequarryError) as refusal:
                error = refusal.error if isinstance(refusal, PageRefusal) else refusal
                template = "refusal.html" if request.query_params.get("part") else "error.html"
                html = await render(template, title="No answer", message=error.message, suggestion=error.suggestion)
                return HTMLResponse(html, self._statuses[error.code], _HEADERS)
            return HTMLResponse(html, headers=_HEADERS)

        return answer

    def _is_keeper(self, request: Request) -> bool:
        return self._kept and scope_of_request(request, authenticated=self._authenticated).whole


def _for_keepers(view: Callable[[QueryParams], Awaitable[str]]) -> View:
    """Return a view for callers who may see every repository; to others it is not there."""

    async def answer(caller: PageCaller, given: QueryParams) -> str:
        if not caller.keeper:
            raise NotFoundError("there is no such page", suggestion="it is for tokens that may see every repository")
        return await view(given)

    return answer


def _static(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    content = static_file(name)

    async def answer(_request: Request) -> Response:
        return Response(content, media_type=kind, headers=_HEADERS)

    return answer
