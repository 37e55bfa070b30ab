"""Notices of the page as an app of MCP Apps (SEP-1865), which clients are given before any of them asks for it."""

from __future__ import annotations

from typing import Any

import mcp_types
from fastmcp.resources.types import TextResource
from pydantic import AnyUrl

APP_URI = "ui://codequarry/page"
"""Address of the app; with the address of a view behind it, such as ``/file?path=…``, of what the app shows."""
APP_MIME_TYPE = "text/html;profile=mcp-app"
APP_META: dict[str, Any] = {"ui": {"prefersBorder": True}}
"""No domains are named: the client lets the app ask none."""
APP_OF_TOOL: dict[str, Any] = {"ui": {"resourceUri": APP_URI}}
"""``_meta`` of the tool whose answers the app shows."""
TOOL_WITH_APP = "search"


def app_resource() -> TextResource:
    """Return the app as ``resources/list`` names it; its text is made when it is read."""
    return TextResource(
        uri=AnyUrl(APP_URI),
        name="page",
        title="Search page",
        description="Search results, files, names and their callers as a page for people.",
        mime_type=APP_MIME_TYPE,
        annotations=mcp_types.Annotations(audience=["user"]),
        meta=APP_META,
        text="",
    )
