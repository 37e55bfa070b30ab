"""The page as an app of MCP Apps (SEP-1865): a client shows it beside an answer of ``search``, in a frame of its own.

The app is one resource without any outside file. What it shows are further resources, which it asks the client to read:
the same views that browsers get, so that its answers are those of the tools, with the caller's rights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastmcp.resources.base import ResourceContent, ResourceResult
from markupsafe import Markup
from starlette.datastructures import QueryParams

from codequarry.schemas.errors import CodequarryError, NotFoundError
from codequarry.schemas.wire.search import MAX_QUERY_CHARS
from codequarry.serving.page.reader_views import VIEWS, PageCaller, PageRefusal
from codequarry.serving.page.rendering import render, static_file
from codequarry.serving.server.app_resource import APP_META, APP_MIME_TYPE, APP_URI
from codequarry.serving.server.resource import refused_resource
from codequarry.serving.tools.fetch import error_body

if TYPE_CHECKING:
    from codequarry.serving.server.mcp import ToolServer


_MAX_ADDRESS_CHARS = 16 * MAX_QUERY_CHARS
"""Longest address of a view: a query whose every character takes up to twelve once it is escaped, and filters."""


async def read_app_resource(server: ToolServer, uri: str) -> ResourceResult:
    """Read the app, or a view that it shows.

    Args:
        server: Server whose tools answer.
        uri: `APP_URI`, or that with the address of a view behind it.

    Returns:
        The resource, as HTML.

    Raises:
        MCPError: There is no such view, or a tool refuses or fails; its data is the error in the form that tools have.
    """
    if uri == APP_URI:
        style, *scripts = (Markup(static_file(name)) for name in ("style.css", "app.js", "page.js"))
        shell = await render("app.html", title="Search", style=style, scripts=scripts)
        return _html(shell, APP_MIME_TYPE, APP_META)
    try:
        return _html(await _read_view(server, uri.removeprefix(APP_URI)), "text/html", None)
    except PageRefusal as refusal:
        raise refused_resource(refusal.error) from refusal
    except CodequarryError as error:
        raise refused_resource(error_body(error)) from error


async def _read_view(server: ToolServer, address: str) -> str:
    path, _, query = address.partition("?")
    view = VIEWS.get(path)
    if view is None or len(address) > _MAX_ADDRESS_CHARS:
        raise NotFoundError("there is no such page", suggestion=f"use one of {', '.join(VIEWS)}")
    return await view(PageCaller(server), QueryParams(query))


def _html(text: str, kind: str, meta: dict[str, Any] | None) -> ResourceResult:
    return ResourceResult([ResourceContent(text, mime_type=kind, meta=meta)])
