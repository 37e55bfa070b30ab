"""Commands ``codequarry install-client`` and ``codequarry token``: how clients and server get to know each other."""

from __future__ import annotations

import hashlib
import json
import secrets
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.file import find_settings
from codequarry.schemas.settings.load import SETTINGS_FILE, load_settings
from codequarry.schemas.settings.service import AuthSettings
from codequarry.schemas.trust.trusted_folders import is_trusted
from codequarry.serving.cli.options import RootOption, SettingsOption

NAME = "codequarry"
TOKEN = "YOUR-TOKEN"
CLIENTS = ("claude-code", "claude-desktop", "cursor", "vscode", "chatgpt")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("install-client")(install_client)
    app.command("token")(token)


def install_client(
    client: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(CLIENTS)}.")],
    url: Annotated[
        str,
        typer.Option(
            help="Of a running service, e.g. http://127.0.0.1:8321; the client starts "
            "`codequarry serve --stdio` itself when left out."
        ),
    ] = "",
    only_print: Annotated[bool, typer.Option("--print", help="Print the configuration alone, for a file.")] = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Print what to put into the configuration of an MCP client.

    Nothing is written: the files belong to the clients.

    Example: codequarry install-client cursor --print > .cursor/mcp.json
    """  # fmt: skip
    if client not in CLIENTS:
        raise InvalidArgumentError(f"no client {client!r} is known", suggestion=f"give one of {', '.join(CLIENTS)}")
    settings = load_settings(settings_file, bundle_root=root, look="up")
    server = (
        Server(url=url.rstrip("/").removesuffix("/mcp"), token=settings.auth.required)
        if url
        else Server(command=stdio_command(settings.bundle.root, settings_file))
    )
    found = snippet(client, server)
    if not only_print:
        typer.secho(f"{found.title}: {found.where}", bold=True, err=True)
    typer.echo(found.text)


def token(
    name: Annotated[str, typer.Argument(help="Who will use it: letters, digits, dots, dashes.")],
) -> None:
    """Make a bearer token for a client of the HTTP service.

    The token goes to the client and is shown this once; the settings hold only its hash.

    Example: codequarry token alice
    """
    value, digest = new_token()
    try:
        AuthSettings(tokens=(f"{name}:{digest}",))
    except ValueError:
        raise InvalidArgumentError(
            "NAME: expected letters, digits, '.', '_' or '-', at most 64", suggestion="e.g. codequarry token alice"
        ) from None
    typer.echo(f"token for {name}, shown once:\n  {value}\nadd to dagster_project.toml:\n  [auth]")
    typer.echo(f'  tokens = ["{name}:{digest}"]')


def new_token() -> tuple[str, str]:
    """Return a random bearer token, and its sha256 in hex."""
    token = secrets.token_urlsafe(32)
    return token, hashlib.sha256(token.encode()).hexdigest()


def trusted_here() -> tuple[str, ...]:
    """Return the option for the settings file of the current folder, when the user trusts it."""
    place = find_settings(None, "here")
    trusted = place.raw is not None and is_trusted(place.folder, place.raw)
    return ("--settings", str(place.folder / SETTINGS_FILE)) if trusted else ()


def stdio_command(root: Path, settings_file: Path | None = None) -> tuple[str, ...]:
    """Return the command by which a client starts the server over stdio.

    Paths are absolute, because clients start it in folders of their own.

    Args:
        root: Bundle root.
        settings_file: Settings file of the command line. That of the current folder is used only when it is trusted: on
            the client's command line it would be accepted whatever it asks for later.

    Returns:
        Program and arguments.
    """
    program = Path(sys.argv[0]).resolve()
    installed = program.name == "codequarry" and program.is_file()
    started = (str(program),) if installed else (sys.executable, "-m", "codequarry.pipelines.cli")
    settings = ("--settings", str(settings_file.resolve())) if settings_file else trusted_here()
    return (*started, "serve", "--stdio", "--root", str(root), *settings)


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
