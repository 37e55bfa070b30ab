"""Configurations of MCP clients: the text, and the file that it belongs to."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass

NAME = "codequarry"
TOKEN = "YOUR-TOKEN"


@dataclass(frozen=True, slots=True)
class Server:
    """Server as a client reaches it: by starting it, or at a URL."""

    command: tuple[str, ...] = ()
    """Program and arguments, for a client that starts it; empty with a URL."""
    url: str = ""
    """The service's address without a path; empty with a command."""
    token: bool = False
    """Whether callers must show a bearer token."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """Text of a configuration and its place."""

    client: str
    title: str
    where: str
    text: str


CLIENTS = ("claude-code", "claude-desktop", "cursor", "vscode", "chatgpt")


def snippet(client: str, server: Server) -> Snippet:
    """Return the configuration of one client; raises KeyError for a client that is not in `CLIENTS`."""
    return _SNIPPETS[client](server)


def _claude_code(server: Server) -> Snippet:
    if server.command:
        text = f"claude mcp add {NAME} -- {shlex.join(server.command)}"
    else:
        header = f' --header "Authorization: Bearer {TOKEN}"' if server.token else ""
        text = f"claude mcp add --transport http {NAME} {server.url}/mcp{header}"
    return Snippet("claude-code", "Claude Code", "a shell", text)


def _claude_desktop(server: Server) -> Snippet:
    where = "Settings > Developer > Edit Config (claude_desktop_config.json)"
    if server.command:
        return Snippet("claude-desktop", "Claude Desktop", where, _json({"mcpServers": {NAME: _started(server)}}))
    # Its file accepts only programs; a URL goes through a bridge.
    arguments = ["-y", "mcp-remote", f"{server.url}/mcp"]
    arguments += ["--header", f"Authorization: Bearer {TOKEN}"] if server.token else []
    started = {"command": "npx", "args": arguments}
    return Snippet("claude-desktop", "Claude Desktop", where, _json({"mcpServers": {NAME: started}}))


def _cursor(server: Server) -> Snippet:
    entry = _started(server) if server.command else {"url": f"{server.url}/mcp", **_headers(server)}
    return Snippet("cursor", "Cursor", "~/.cursor/mcp.json", _json({"mcpServers": {NAME: entry}}))


def _vscode(server: Server) -> Snippet:
    entry = (
        {"type": "stdio", **_started(server)}
        if server.command
        else {"type": "http", "url": f"{server.url}/mcp", **_headers(server)}
    )
    return Snippet("vscode", "VS Code", ".vscode/mcp.json", _json({"servers": {NAME: entry}}))


def _chatgpt(server: Server) -> Snippet:
    where = "Settings > Apps & Connectors > Advanced > Developer mode > Create (needs HTTPS that ChatGPT reaches)"
    if server.command:
        text = "ChatGPT starts no programs: run `codequarry serve` behind an HTTPS proxy and give its URL"
    else:
        text = f"MCP server URL: {server.url}/chatgpt/mcp" + (f"\nBearer token: {TOKEN}" if server.token else "")
    return Snippet("chatgpt", "ChatGPT connector", where, text)


_SNIPPETS: dict[str, Callable[[Server], Snippet]] = dict(
    zip(CLIENTS, (_claude_code, _claude_desktop, _cursor, _vscode, _chatgpt), strict=True)
)


def _started(server: Server) -> dict[str, object]:
    return {"command": server.command[0], "args": list(server.command[1:])}


def _headers(server: Server) -> dict[str, object]:
    return {"headers": {"Authorization": f"Bearer {TOKEN}"}} if server.token else {}


def _json(value: dict[str, object]) -> str:
    return json.dumps(value, indent=2)
