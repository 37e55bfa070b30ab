"""The page as an app of MCP: which resources a client is told of, and what it gets when it reads them."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import quote

import pytest
from fastmcp import Client
from mcp.shared.exceptions import MCPError

from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.engine.engine import Engine
from codequarry.serving.page.mcp_app import read_app_resource
from codequarry.serving.server.app_resource import APP_MIME_TYPE, APP_URI
from codequarry.serving.server.mcp import build_server, listed_tools

NASTY = ("/", "/file", "/file?path=../../etc/passwd", "/file?path=a&line=<script>", "/symbol?at=x:1:1",
         "/folder?path=%00", "/versions", "//other.example/", "//[x", "?q=x", "/nothing")  # fmt: skip


def read(engine: Engine, uri: str) -> tuple[str, str]:
    """Media type and text of a resource."""

    async def ask() -> tuple[str, str]:
        async with Client(build_server(engine, version="0", app=read_app_resource)) as client:
            (content,) = await client.read_resource(uri)
            return str(content.mime_type), content.text

    return asyncio.run(ask())


def test_a_client_is_told_which_tool_the_app_belongs_to(symbol_engine: Engine) -> None:
    async def ask() -> None:
        async with Client(build_server(symbol_engine, version="0", app=read_app_resource)) as client:
            tools = {tool.name: (tool.meta or {}).get("ui") for tool in await client.list_tools()}
            assert {name: ui for name, ui in tools.items() if ui} == {"search": {"resourceUri": APP_URI}}
            (resource,) = await client.list_resources()
            assert str(resource.uri) == APP_URI

    asyncio.run(ask())


def test_row_37_the_app_asks_no_other_host(symbol_engine: Engine) -> None:
    kind, text = read(symbol_engine, APP_URI)
    assert kind == APP_MIME_TYPE
    assert "ui/initialize" in text and "light-dark(" in text and len(text) < 20_000
    assert "&lt;" not in text, "style and script are as they are"
    assert not re.search(r"""(src|href)=["']?(https?:)?//|url\(|@import""", text)


def test_views_are_those_of_browsers(symbol_engine: Engine) -> None:
    kind, found = read(symbol_engine, f"{APP_URI}/?q={quote('open the index')}")
    assert kind == "text/html" and "what speaks for it" in found
    (file,) = re.findall(r'<a class="to" href="(/file[^"#]+)', found)[:1]
    _, shown = read(symbol_engine, APP_URI + file.replace("&amp;", "&"))
    assert 'pre tabindex="0" data-uri=' in shown


def test_a_search_keeps_all_its_filters(symbol_engine: Engine) -> None:
    given = "lang=python&lang=typescript&exclude=**/app.ts&kind=function&limit=2"
    _, found = read(symbol_engine, f"{APP_URI}/?q={quote('open the index')}&{given}")
    assert found.count('<div class="place">') <= 2
    assert "app.ts" not in found.partition('id="results"')[2]
    for name, value in (("lang", "typescript"), ("exclude", "**/app.ts"), ("kind", "function"), ("limit", "2")):
        assert f'name="{name}" value="{value}" checked' in found, "those without a field can be taken away"


def test_a_long_search_is_shown(symbol_engine: Engine) -> None:
    assert "what speaks for it" in read(symbol_engine, f"{APP_URI}/?q={quote('open the index → ' * 200)}")[1]


def test_a_glob_shows_whole_paths(symbol_engine: Engine) -> None:
    _, found = read(symbol_engine, f"{APP_URI}/folder?path={quote('**/*.ts')}")
    (shown,) = re.findall(r'<a class="to" [^>]*>([^<]*app\.ts)</a>', found)
    _, whole = read(symbol_engine, f"{APP_URI}/file?path={shown}")
    assert "data-uri=" in whole


@pytest.mark.parametrize("address", NASTY)
def test_row_37_any_address_gets_a_page_or_a_typed_error(symbol_engine: Engine, address: str) -> None:
    try:
        _, text = read(symbol_engine, APP_URI + address)
    except MCPError as error:
        assert error.error.data["code"] in ("INVALID_ARGUMENT", "NOT_FOUND")
    else:
        assert "<script>" not in text


def test_without_the_page_there_is_no_app(symbol_engine: Engine) -> None:
    engine = Engine(symbol_engine.bundle, ServingSettings(page=False))

    async def ask() -> None:
        async with Client(build_server(engine, version="0", app=read_app_resource)) as client:
            assert await client.list_resources() == []
            tools = await client.list_tools()
            assert not any((tool.meta or {}).get("ui") for tool in tools)
            assert [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools] == listed_tools(
                page=False
            )
            with pytest.raises(MCPError):
                await client.read_resource(APP_URI)

    asyncio.run(ask())
