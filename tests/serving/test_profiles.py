"""The profile for ChatGPT connectors: exactly OpenAI's two tools, over HTTP and over stdio, in both eras."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import jsonschema
import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport

from codequarry.schemas.bundle.manifest import SourceEntry
from codequarry.serving.server.chatgpt import permalink
from codequarry.serving.server.mcp import build_server, listed_tools
from tests.serving.bundles.corpus import INDEX_OPEN, SESSION
from tests.serving.server.test_mcp import ERAS, failed, talk

CONNECTOR = {tool["name"]: tool for tool in listed_tools("chatgpt")}


@pytest.fixture(scope="module")
def server(lexical_engine) -> FastMCP:
    return build_server(lexical_engine, version="0", profile="chatgpt")


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return request.param


def call(server: FastMCP, era: str, tool: str, **arguments: object):
    result = talk(server, era, lambda client: client.call_tool_mcp(tool, arguments))
    assert json.loads(result.content[0].text) == result.structured_content
    if not result.is_error:
        jsonschema.validate(result.structured_content, CONNECTOR[tool]["outputSchema"])
    return result


def test_exactly_two_tools_with_one_argument_each(server, era) -> None:
    tools = talk(server, era, lambda client: client.list_tools())
    arguments = {tool.name: list(tool.input_schema["properties"]) for tool in tools}
    assert arguments == {"search": ["query"], "fetch": ["id"]}
    assert all(tool.input_schema["required"] == arguments[tool.name] for tool in tools)
    assert all(tool.annotations.read_only_hint for tool in tools)


def test_search_and_fetch_have_openais_shapes(server, era) -> None:
    found = call(server, era, "search", query="Index.open").structured_content
    assert set(found) == {"results"}
    assert all(set(row) == {"id", "title", "url"} for row in found["results"])
    assert found["results"][0]["id"] == str(INDEX_OPEN.id)
    read = call(server, era, "fetch", id=found["results"][0]["id"]).structured_content
    assert set(read) == {"id", "title", "text", "url", "metadata"}
    assert read["text"] == INDEX_OPEN.text
    assert all(isinstance(value, str) for value in read["metadata"].values())
    assert (read["metadata"]["uri"], read["metadata"]["commit"]) == ("quarry/io/index.py", "a" * 40)


def test_errors_are_the_same_as_everywhere(server, era) -> None:
    failed(call(server, era, "fetch", id="1"), "NOT_FOUND")
    failed(call(server, era, "fetch", id=""), "NOT_FOUND")
    failed(call(server, era, "fetch", id=SESSION.path), "NOT_FOUND")
    failed(call(server, era, "fetch", objectIds=["1"]), "INVALID_ARGUMENT")
    failed(call(server, era, "search", top_k=3), "INVALID_ARGUMENT")
    error = failed(call(server, era, "search_code", pattern="x"), "INVALID_ARGUMENT")
    assert error["suggestion"] == "use one of search, fetch"


@pytest.mark.parametrize("era", ERAS)
def test_stdio_serves_the_profile_that_was_asked_for(lexical_root: Path, tmp_path: Path, era: str) -> None:
    command = [
        "-m",
        "codequarry.pipelines.cli",
        "serve",
        "--stdio",
        "--profile",
        "chatgpt",
        "--root",
        str(lexical_root),
    ]

    async def conversation() -> None:
        transport = StdioTransport(
            sys.executable, command, cwd=str(tmp_path), keep_alive=False, log_file=tmp_path / "log"
        )
        async with Client(transport, mode="legacy" if era == "2025-11-25" else "auto") as client:
            assert [tool.name for tool in await client.list_tools()] == ["search", "fetch"]
            read = await client.call_tool_mcp("fetch", {"id": str(SESSION.id)})
            assert read.structured_content["text"] == SESSION.text

    asyncio.run(conversation())


def source(url: str, *, dirty: bool = False, commit: str = "c" * 40) -> SourceEntry:
    # Not checked: a link must be harmless whatever the manifest says.
    return SourceEntry.model_construct(
        name="r", url=url, commit=commit, dirty=dirty, tree_sha256="0" * 64, files=1, chunks=1, skipped={}
    )


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("https://github.com/o/r.git", f"https://github.com/o/r/blob/{'c' * 40}/a%20b.py#L3-L9"),
        ("git@github.com:o/r.git", f"https://github.com/o/r/blob/{'c' * 40}/a%20b.py#L3-L9"),
        ("ssh://git@gitlab.com:22/g/s/r", f"https://gitlab.com/g/s/r/-/blob/{'c' * 40}/a%20b.py#L3-9"),
        ("https://codeberg.org/o/r", f"https://codeberg.org/o/r/src/commit/{'c' * 40}/a%20b.py#L3-L9"),
        ("https://github.com.evil.example/o/r", ""),
        ("https://code.example.org/o/r", ""),
        ("https://github.com/o/r?x=<script>", ""),
        ("file:///srv/github.com/o/r", ""),
        ("", ""),
    ],
)
def test_links_are_made_for_known_hosts_alone(url: str, link: str) -> None:
    assert permalink(source(url), "a b.py", 3, 9) == link


def test_files_that_differ_from_their_commit_have_no_link() -> None:
    assert permalink(source("https://github.com/o/r", dirty=True), "a.py", 1, 1) == ""
    assert permalink(source("https://github.com/o/r", commit=""), "a.py", 1, 1) == ""
