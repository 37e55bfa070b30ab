"""Files as MCP resources: in process, and over HTTP with its admission control."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import quote

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp import MCPError

from codequarry.schemas.settings.load import ServingSettings
from codequarry.serving.engine.engine import Engine
from codequarry.serving.http.app import Service
from codequarry.serving.server.mcp import build_server
from tests.serving.bundles.corpus import UNICODE
from tests.serving.bundles.symbol_corpus import INDEX
from tests.serving.live import running
from tests.serving.server.test_mcp import ERAS, talk

URL = "repo://quarry/io/index.py"


@pytest.fixture(scope="module")
def server(symbol_engine):
    return build_server(symbol_engine, version="0")


def read(server, url: str, era: str = ERAS[0]) -> str:
    (found,) = talk(server, era, lambda client: client.read_resource(url))
    assert (str(found.uri), found.mime_type) == (url, "text/plain")
    return found.text


def refused(server, url: str, era: str = ERAS[0]) -> MCPError:
    with pytest.raises(MCPError) as caught:
        talk(server, era, lambda client: client.read_resource(url))
    assert "canary" not in json.dumps([caught.value.error.message, caught.value.error.data])
    return caught.value.error


@pytest.mark.parametrize("era", ERAS)
def test_one_template_is_listed_and_no_resource(server, era: str) -> None:
    (template,) = talk(server, era, lambda client: client.list_resource_templates())
    assert template.uri_template == "repo://{repository}/{path*}"
    assert talk(server, era, lambda client: client.list_resources()) == []


@pytest.mark.parametrize("era", ERAS)
def test_a_file_and_lines_of_it(server, era: str) -> None:
    assert read(server, URL, era) == INDEX.text
    lines = INDEX.text.splitlines(keepends=True)
    assert read(server, f"{URL}#L4-L7", era) == "".join(lines[3:7])
    assert read(server, f"{URL}#L1", era) == lines[0]


def test_every_url_of_an_answer_can_be_read(server, symbol_engine) -> None:
    async def converse(client: Client) -> None:
        found = (await client.call_tool_mcp("search", {"query": "open"})).structured_content["results"]
        assert found
        for one in found:
            fetched = await client.call_tool_mcp("fetch", {"id": one["id"]})
            assert (await client.read_resource(one["url"]))[0].text.startswith(
                fetched.structured_content["text"].rstrip("\n")
            )

    talk(server, ERAS[0], converse)


def test_a_path_beyond_ascii(lexical_engine) -> None:
    assert read(build_server(lexical_engine, version="0"), f"repo://quarry/{quote(UNICODE.path)}") == UNICODE.text


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("repo://quarry/canary.py", "NOT_FOUND"),
        ("repo://canary/io/index.py", "NOT_FOUND"),
        ("repo://quarry/io", "NOT_FOUND"),
        ("repo://quarry/../../etc/canary", "NOT_FOUND"),
        (f"{URL}#L9999", "NOT_FOUND"),
        (f"{URL}#L7-L3", "INVALID_ARGUMENT"),
        ("file:///etc/canary", "INVALID_ARGUMENT"),
        ("ui://canary/x", "INVALID_ARGUMENT"),
        ("repo://quarry/" + "canary" * 1000, "INVALID_ARGUMENT"),
    ],
)
@pytest.mark.parametrize("era", ERAS)
def test_errors_are_of_the_protocol_and_without_echo(server, era: str, url: str, code: str) -> None:
    error = refused(server, url, era)
    assert error.code == -32602
    assert error.data["code"] == code
    assert set(error.data) == {"code", "message", "suggestion", "retryable"}


def test_a_busy_server_says_so(symbol_engine) -> None:
    busy = Engine(symbol_engine.bundle, ServingSettings(max_concurrency=1))
    server = build_server(busy, version="0")
    with busy.gate.place():
        error = refused(server, URL)
        assert (error.code, error.data["code"], error.data["retryable"]) == (-32603, "BUSY", True)
    assert read(server, URL) == INDEX.text
    assert busy.gate.running == 0


def test_the_connector_has_no_resources(symbol_engine) -> None:
    server = build_server(symbol_engine, version="0", profile="chatgpt")
    assert talk(server, ERAS[0], lambda client: client.list_resource_templates()) == []


@pytest.mark.parametrize("era", ERAS)
def test_over_http(symbol_engine, era: str) -> None:
    async def converse(port: int) -> None:
        transport = StreamableHttpTransport(f"http://127.0.0.1:{port}/mcp")
        async with Client(transport, mode="legacy" if era == "2025-11-25" else "auto") as client:
            assert (await client.read_resource(f"{URL}#L1-L1"))[0].text == "LIMIT = 3\n"
            with pytest.raises(MCPError) as caught:
                await client.read_resource("repo://quarry/canary.py")
            assert caught.value.error.data["code"] == "NOT_FOUND"

    with running(Service(Engine(symbol_engine.bundle, ServingSettings()), "0")) as port:
        asyncio.run(converse(port))
