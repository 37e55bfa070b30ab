"""What `codequarry serve` and `codequarry install --print` tell people to write into their clients."""

from __future__ import annotations

import asyncio
import json
import shlex
import tomllib
from pathlib import Path

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.mcp_config import MCPConfig

from codequarry.schemas.settings.load import SETTINGS_FILE
from codequarry.schemas.trust.trusted_folders import add_trust
from codequarry.serving.cli.install.clients import ANNOUNCED, CLIENTS, PRINTED, TOKEN, TOKEN_VARIABLE, Server, snippet
from tests.serving.cli.install.adoption_schemas import check_format

STARTED = Server(command=("/opt/code quarry/bin/codequarry", "serve", "--stdio", "--root", "/srv/b"))
BY_URL = Server(url="http://127.0.0.1:8321")


WITH_TOKEN = Server(url="https://c.example.org", token=True)


@pytest.mark.parametrize("client", ANNOUNCED)
@pytest.mark.parametrize("server", [STARTED, BY_URL, WITH_TOKEN])
def test_every_announced_client_has_a_place_and_a_text(client: str, server: Server) -> None:
    found = snippet(client, server)
    assert found.where
    assert found.title
    assert found.text
    assert (TOKEN in found.text or TOKEN_VARIABLE in found.text) == server.token


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("server", [STARTED, BY_URL, WITH_TOKEN])
def test_every_configuration_has_the_fields_that_its_client_requires(client: str, server: Server) -> None:
    text = CLIENTS[client].text("codequarry-app", server)
    value = tomllib.loads(text) if CLIENTS[client].language == "toml" else json.loads(text)
    check_format(client, value)
    assert (TOKEN in text or TOKEN_VARIABLE in text) == server.token


@pytest.mark.parametrize(
    "client", [key for key in CLIENTS if key not in ("vscode", "opencode", "zed", "codex", "copilot")]
)
def test_a_started_server_is_described_as_clients_read_it(client: str) -> None:
    entry = MCPConfig.from_dict(json.loads(CLIENTS[client].text("codequarry", STARTED))).mcpServers["codequarry"]
    assert (entry.command, *entry.args) == STARTED.command


def test_claude_code_gets_one_command_line() -> None:
    words = shlex.split(snippet("claude-code", STARTED).text)
    assert words == ["claude", "mcp", "add", "codequarry", "--", *STARTED.command]
    assert snippet("claude-code", BY_URL).text == "claude mcp add --transport http codequarry http://127.0.0.1:8321/mcp"


def test_vscode_has_its_own_key() -> None:
    assert json.loads(snippet("vscode", STARTED).text)["servers"]["codequarry"]["type"] == "stdio"
    assert json.loads(snippet("vscode", BY_URL).text)["servers"]["codequarry"]["type"] == "http"


def test_the_printed_configuration_starts_a_server_that_answers(run, lexical_root: Path, tmp_path: Path) -> None:
    """As a client does: it reads the text, starts the program, lists the tools."""
    code, out, err = run("install", "cursor", "--print", "--root", lexical_root)
    assert (code, err) == (0, "")

    entry = MCPConfig.from_dict(json.loads(out)).mcpServers["codequarry"]

    async def conversation() -> list[str]:
        transport = StdioTransport(
            entry.command, entry.args, cwd=str(tmp_path), keep_alive=False, log_file=tmp_path / "log"
        )
        async with Client(transport) as client:
            return [tool.name for tool in await client.list_tools()]

    assert "outline" in asyncio.run(conversation())


def test_the_settings_of_the_operator_go_along(run, lexical_root: Path, tmp_path: Path, monkeypatch) -> None:
    def printed(*given: object) -> list[str]:
        out = run("install", "cursor", "--print", "--root", lexical_root, *given)[1]
        return json.loads(out)["mcpServers"]["codequarry"]["args"]

    monkeypatch.chdir(tmp_path)
    assert "--settings" not in printed()
    mine, others = tmp_path / SETTINGS_FILE, tmp_path / "others.toml"
    mine.touch()
    others.touch()
    assert "--settings" not in printed(), "named for a client it would be trusted, whatever it asks for later"
    add_trust(tmp_path, mine.read_bytes())
    assert printed()[-2:] == ["--settings", str(mine)]
    assert printed("--settings", "others.toml")[-2:] == ["--settings", str(others)]


def test_a_running_service_is_named_by_its_url(run) -> None:
    out = run("install", "chatgpt", "--print", "--url", "https://c.example.org/mcp")[1]
    assert out.strip() == "MCP server URL: https://c.example.org/chatgpt/mcp"


def test_an_unknown_client_is_refused_with_those_there_are(run) -> None:
    code, _, err = run("install", "emacs")
    assert code == 2
    assert all(client in err for client in PRINTED)


def test_serve_prints_a_snippet_for_usual_clients(run, lexical_root: Path, monkeypatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(
        "codequarry.serving.http.app.serve_http", lambda _, __, announce: said.append(announce("http://127.0.0.1:1"))
    )
    code, out, err = run("serve", "--root", lexical_root)
    assert (code, out) == (0, "")
    assert "at http://127.0.0.1:1/mcp" in err.splitlines()[0]
    assert "http://127.0.0.1:1/chatgpt/mcp" in err
    assert all(snippet(client, BY_URL).title in err for client in ANNOUNCED)
