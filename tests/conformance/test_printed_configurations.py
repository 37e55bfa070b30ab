"""What `codequarry serve` and `codequarry install --print` print, read and used by clients that are not ours.

The MCP Inspector reads files of servers as Claude Desktop does, and takes the same words as `claude mcp add`; FastMCP's
client reads a server's URL as Cursor does, which names no type beside it. Texts are used as they were printed; only VS
Code's key for the list of servers is the one that the Inspector reads.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastmcp import Client

from codequarry.serving.server.mcp import listed_tools
from tests.conformance.node import node
from tests.serving.bundles.bundle_factory import write_bundle
from tests.serving.bundles.corpus import PIECES

pytestmark = [pytest.mark.mcp_suites]

CODEQUARRY = (sys.executable, "-m", "codequarry.pipelines.cli")
ERAS = ("legacy", "modern")
CALL = ("--method", "tools/call", "--tool-name", "search", "--tool-arg", "query=Index.open")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bundles")
    write_bundle(root, PIECES)
    return root


@pytest.fixture(scope="module")
def printed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What a running `codequarry serve` printed for each client, by the client's title."""
    command = [*CODEQUARRY, "serve", "--port", "0", "--root", str(root)]
    folder = tmp_path_factory.mktemp("served")
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            found: dict[str, str] = {}
            title = ""
            while not found.get("ChatGPT connector"):
                line = server.stderr.readline()
                assert line, "the server ended before it had printed everything"
                if line.startswith("  "):
                    found[title] += line[2:]
                elif started := re.match(r"([^,]+), .*:$", line):
                    title = started[1]
                    found[title] = ""
            yield found
        finally:
            server.terminate()


def use(config: str, folder: Path, era: str) -> None:
    """List the tools and call one, with the text of a printed configuration as the client's file."""
    file = folder / "mcp.json"
    file.write_text(config)
    ask(["--config", str(file), "--server", "codequarry"], folder, era)


def ask(server: list[str], folder: Path, era: str, profile: str = "default") -> None:
    listing = inspector(server, folder, era, "--method", "tools/list")
    assert [tool["name"] for tool in listing["tools"]] == [tool["name"] for tool in listed_tools(profile)]
    results = inspector(server, folder, era, *CALL)["structuredContent"]["results"]
    assert results[0]["title"].startswith("quarry/io/index.py")


def inspector(server: list[str], folder: Path, era: str, *asked: str) -> dict[str, object]:
    done = node("mcp-inspector", "--cli", *server, "--protocol-era", era, *asked, home=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("era", ERAS)
def test_what_serve_prints_for_claude_desktop_works(printed, tmp_path: Path, era: str) -> None:
    """It starts a server over stdio."""
    use(printed["Claude Desktop"], tmp_path, era)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_what_serve_prints_for_cursor_works(printed, mode: str) -> None:
    async def conversation() -> tuple[list[str], str]:
        async with Client(json.loads(printed["Cursor"]), mode=mode) as client:
            listed = [tool.name for tool in await client.list_tools()]
            found = await client.call_tool("search", {"query": "Index.open"})
            return listed, found.structured_content["results"][0]["title"]

    listed, title = asyncio.run(conversation())
    assert listed == [tool["name"] for tool in listed_tools()]
    assert title.startswith("quarry/io/index.py")


@pytest.mark.parametrize("era", ERAS)
def test_what_serve_prints_for_vscode_works(printed, tmp_path: Path, era: str) -> None:
    use(json.dumps({"mcpServers": json.loads(printed["VS Code"])["servers"]}), tmp_path, era)


@pytest.mark.parametrize("era", ERAS)
def test_what_serve_prints_for_claude_code_works(printed, tmp_path: Path, era: str) -> None:
    claude, mcp, add, option, transport, name, url = shlex.split(printed["Claude Code"])
    assert (claude, mcp, add, option, name) == ("claude", "mcp", "add", "--transport", "codequarry")
    ask([url, option, transport], tmp_path, era)


@pytest.mark.parametrize("era", ERAS)
def test_the_url_that_serve_prints_for_chatgpt_works(printed, tmp_path: Path, era: str) -> None:
    url = printed["ChatGPT connector"].strip().removeprefix("MCP server URL: ")
    ask([url, "--transport", "http"], tmp_path, era, "chatgpt")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("client", ["cursor", "claude-desktop", "vscode"])
def test_what_install_prints_is_a_file_that_works(root: Path, tmp_path: Path, client: str, era: str) -> None:
    command = [*CODEQUARRY, "install", client, "--print", "--root", str(root)]
    text = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    use(text if client != "vscode" else json.dumps({"mcpServers": json.loads(text)["servers"]}), tmp_path, era)
