"""Table of MCP clients: the form of their configurations, and the files that hold them."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from codequarry.serving.cli.install.toml_text import table_text

NAME = "codequarry"
TOKEN = "YOUR-TOKEN"
"""Text that stands for a bearer token where a client reads none from the environment."""
TOKEN_VARIABLE = "CODEQUARRY_TOKEN"


@dataclass(frozen=True, slots=True)
class Server:
    """Server as a client reaches it: by starting it, or at a URL."""

    command: tuple[str, ...] = ()
    """Program and arguments, for a client that starts it; empty with a URL."""
    url: str = ""
    """The service's address without a path; empty with a command."""
    token: bool = False
    """True when callers must show a bearer token."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """Text of a configuration and its place."""

    client: str
    title: str
    where: str
    text: str


@dataclass(frozen=True, slots=True)
class McpClient:
    """One client whose configuration is a file."""

    key: str
    title: str
    keys: tuple[str, ...]
    """Place of the servers in the file."""
    entry: Callable[[Server], dict[str, Any]]
    """Configuration of one server."""
    user_file: Callable[[], Path]
    """The user's own file."""
    marks: Callable[[], tuple[Path, ...]]
    """Files and folders one of which is there when the client is."""
    project_file: str = ""
    """The file of a project, relative to its folder; empty for a client that has none."""
    comments: bool = False
    """True when the client reads comments in JSON."""
    commas: bool = False
    """True when it reads trailing commas in JSON."""
    language: Literal["json", "toml"] = "json"

    def text(self, name: str, server: Server) -> str:
        """Return a whole file that names one server."""
        if self.language == "toml":
            return table_text((*self.keys, name), self.entry(server)).rstrip("\n")
        value: dict[str, Any] = {name: self.entry(server)}
        for key in reversed(self.keys):
            value = {key: value}
        return json.dumps(value, indent=2, ensure_ascii=False)


def _started(server: Server) -> dict[str, Any]:
    return {"command": server.command[0], "args": list(server.command[1:])}


def _headers(server: Server, token: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {token}"}} if server.token else {}


def _claude_code(server: Server) -> dict[str, Any]:
    if server.command:
        return {"type": "stdio", **_started(server)}
    return {"type": "http", "url": f"{server.url}/mcp", **_headers(server, f"${{{TOKEN_VARIABLE}}}")}


def _claude_desktop(server: Server) -> dict[str, Any]:
    if server.command:
        return _started(server)
    # Its file accepts only programs; a URL goes through a bridge.
    arguments = ["-y", "mcp-remote", f"{server.url}/mcp"]
    arguments += ["--header", f"Authorization: Bearer {TOKEN}"] if server.token else []
    return {"command": "npx", "args": arguments}


def _cursor(server: Server) -> dict[str, Any]:
    if server.command:
        return _started(server)
    return {"url": f"{server.url}/mcp", **_headers(server, f"${{env:{TOKEN_VARIABLE}}}")}


def _vscode(server: Server) -> dict[str, Any]:
    if server.command:
        return {"type": "stdio", **_started(server)}
    return {"type": "http", "url": f"{server.url}/mcp", **_headers(server, f"${{env:{TOKEN_VARIABLE}}}")}


def _codex(server: Server) -> dict[str, Any]:
    if server.command:
        return _started(server)
    return {"url": f"{server.url}/mcp"} | ({"bearer_token_env_var": TOKEN_VARIABLE} if server.token else {})


def _gemini(server: Server) -> dict[str, Any]:
    if server.command:
        return _started(server)
    return {"httpUrl": f"{server.url}/mcp", **_headers(server, f"${TOKEN_VARIABLE}")}


def _opencode(server: Server) -> dict[str, Any]:
    if server.command:
        return {"type": "local", "command": list(server.command), "enabled": True}
    headers = _headers(server, f"{{env:{TOKEN_VARIABLE}}}")
    return {"type": "remote", "url": f"{server.url}/mcp", "enabled": True, **headers}


def _copilot(server: Server) -> dict[str, Any]:
    if server.command:
        return {"type": "local", **_started(server), "tools": ["*"]}
    headers = _headers(server, f"${{{TOKEN_VARIABLE}}}")
    return {"type": "http", "url": f"{server.url}/mcp", **headers, "tools": ["*"]}


def _windsurf(server: Server) -> dict[str, Any]:
    if server.command:
        return _started(server)
    return {"serverUrl": f"{server.url}/mcp", **_headers(server, f"${{env:{TOKEN_VARIABLE}}}")}


def _zed(server: Server) -> dict[str, Any]:
    if server.command:
        return {"source": "custom", **_started(server), "env": {}}
    return {"source": "custom", "url": f"{server.url}/mcp", **_headers(server, TOKEN)}


def _cline(server: Server) -> dict[str, Any]:
    if server.command:
        return {**_started(server), "disabled": False}
    return {"type": "streamableHttp", "url": f"{server.url}/mcp", **_headers(server, TOKEN), "disabled": False}


def _home(*parts: str) -> Path:
    return Path.home().joinpath(*parts)


def _base(variable: str, *parts: str) -> Path:
    """Return a folder that a variable names, or else one below the home folder."""
    given = os.environ.get(variable, "")
    return Path(given) if os.path.isabs(given) else _home(*parts)


def _application(*parts: str) -> Path:
    """Return a path in the folder in which desktop applications keep their settings."""
    if sys.platform == "darwin":
        return _home("Library", "Application Support", *parts)
    if sys.platform == "win32":
        return _base("APPDATA", "AppData", "Roaming").joinpath(*parts)
    return _base("XDG_CONFIG_HOME", ".config").joinpath(*parts)


def _claude_json() -> Path:
    return _base("CLAUDE_CONFIG_DIR").joinpath(".claude.json")


def _opencode_file() -> Path:
    folder = _base("XDG_CONFIG_HOME", ".config") / "opencode"
    return jsonc_beside(folder / "opencode.json")


def _zed_folder() -> Path:
    return _application("Zed") if sys.platform == "win32" else _base("XDG_CONFIG_HOME", ".config") / "zed"


def _cline_file() -> Path:
    given = os.environ.get("CLINE_MCP_SETTINGS_PATH", "")
    if os.path.isabs(given):
        return Path(given)
    extension = _cline_extension()
    settings = extension if extension.exists() else _home(".cline", "data")
    return settings / "settings" / "cline_mcp_settings.json"


def _cline_extension() -> Path:
    return _application("Code", "User", "globalStorage", "saoudrizwan.claude-dev")


def jsonc_beside(file: Path) -> Path:
    """Return the file, or the one with comments beside it when only that is there."""
    commented = file.with_suffix(".jsonc")
    return commented if commented.exists() and not file.exists() else file


_SERVERS = ("mcpServers",)
CLIENTS: dict[str, McpClient] = {
    client.key: client
    for client in (
        McpClient("claude-code", "Claude Code", _SERVERS, _claude_code, _claude_json,
                  lambda: (_base("CLAUDE_CONFIG_DIR", ".claude"), _claude_json()), ".mcp.json"),
        McpClient("claude-desktop", "Claude Desktop", _SERVERS, _claude_desktop,
                  lambda: _application("Claude", "claude_desktop_config.json"), lambda: (_application("Claude"),)),
        McpClient("cursor", "Cursor", _SERVERS, _cursor, lambda: _home(".cursor", "mcp.json"),
                  lambda: (_home(".cursor"),), ".cursor/mcp.json"),
        McpClient("vscode", "VS Code", ("servers",), _vscode, lambda: _application("Code", "User", "mcp.json"),
                  lambda: (_application("Code", "User"),), ".vscode/mcp.json", comments=True, commas=True),
        McpClient("codex", "Codex", ("mcp_servers",), _codex, lambda: _base("CODEX_HOME", ".codex") / "config.toml",
                  lambda: (_base("CODEX_HOME", ".codex"),), ".codex/config.toml", language="toml"),
        McpClient("gemini", "Gemini CLI", _SERVERS, _gemini, lambda: _home(".gemini", "settings.json"),
                  lambda: (_home(".gemini"),), ".gemini/settings.json", comments=True),
        McpClient("opencode", "opencode", ("mcp",), _opencode, _opencode_file, lambda: (_opencode_file().parent,),
                  "opencode.json", comments=True, commas=True),
        McpClient("copilot", "GitHub Copilot CLI", _SERVERS, _copilot,
                  lambda: _base("COPILOT_HOME", ".copilot") / "mcp-config.json",
                  lambda: (_base("COPILOT_HOME", ".copilot"),), ".github/mcp.json"),
        McpClient("windsurf", "Windsurf", _SERVERS, _windsurf,
                  lambda: _home(".codeium", "windsurf", "mcp_config.json"), lambda: (_home(".codeium", "windsurf"),)),
        McpClient("zed", "Zed", ("context_servers",), _zed, lambda: _zed_folder() / "settings.json",
                  lambda: (_zed_folder(),), comments=True, commas=True),
        McpClient("cline", "Cline", _SERVERS, _cline, _cline_file,
                  lambda: (_cline_extension(), _home(".cline"))),
    )
}  # fmt: skip
"""Clients whose files are written, by the name that the command line takes."""

ANNOUNCED = ("claude-code", "claude-desktop", "cursor", "vscode", "chatgpt")
"""Clients whose configuration `codequarry serve` prints at its start."""
PRINTED = (*CLIENTS, "chatgpt")
"""Names that the command line takes; ChatGPT has no file."""
_WHERE = {
    "claude-code": "a shell",
    "claude-desktop": "Settings > Developer > Edit Config (claude_desktop_config.json)",
    "cursor": "~/.cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
}


def snippet(client: str, server: Server) -> Snippet:
    """Return what to do by hand for one client of `ANNOUNCED`."""
    if client == "chatgpt":
        where = "Settings > Apps & Connectors > Advanced > Developer mode > Create (needs HTTPS that ChatGPT reaches)"
        return Snippet(client, "ChatGPT connector", where, _chatgpt(server))
    title = CLIENTS[client].title
    text = _claude_command(server) if client == "claude-code" else CLIENTS[client].text(NAME, server)
    return Snippet(client, title, _WHERE[client], text)


def _chatgpt(server: Server) -> str:
    if server.command:
        return "ChatGPT starts no programs: run `codequarry serve` behind an HTTPS proxy and give its URL"
    return f"MCP server URL: {server.url}/chatgpt/mcp" + (f"\nBearer token: {TOKEN}" if server.token else "")


def _claude_command(server: Server) -> str:
    if server.command:
        return f"claude mcp add {NAME} -- {shlex.join(server.command)}"
    header = f' --header "Authorization: Bearer {TOKEN}"' if server.token else ""
    return f"claude mcp add --transport http {NAME} {server.url}/mcp{header}"
