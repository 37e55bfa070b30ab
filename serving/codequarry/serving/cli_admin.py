"""``codequarry serve`` and ``codequarry tools``."""

from __future__ import annotations

import json
import logging
import signal
import sys
from importlib.metadata import version as distribution_version
from typing import Annotated

import typer

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings import ServingSettings, load_settings
from codequarry.serving.cli_options import RootOption, SettingsOption


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("serve")(serve)
    app.command("tools")(tools)


def serve(
    stdio: Annotated[bool, typer.Option("--stdio", help="Speak MCP on stdin and stdout, for a local client.")] = False,
    host: Annotated[str | None, typer.Option(help="Address to bind.", show_default="[serving] host")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to bind; 0 = any free one.", show_default="[serving] port")
    ] = None,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Serve the current bundle over MCP.

    Example: codequarry serve --stdio

    Example: codequarry serve --port 8321    (then connect to http://127.0.0.1:8321/mcp)
    """
    if stdio and (host is not None or port is not None):
        raise InvalidArgumentError("--stdio and --host or --port", suggestion="give --stdio alone, or leave it out")
    # Only what somebody should act on: the libraries below report every start and every request.
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    # FAISS reports every instruction set its wheel was not built for.
    logging.getLogger("faiss").setLevel(logging.WARNING)
    settings = load_settings(settings_file, bundle_root=root)
    serving = _bound(settings.serving, host, port)
    from codequarry.serving.engine import Engine

    # Opened before the imports below: the query encoder loads on its own thread meanwhile.
    engine = Engine.open(settings.bundle.root, serving)
    from codequarry.serving.mcp_server import build_server

    # FastMCP gives its logger a level and a handler of its own when it is imported.
    logging.getLogger("fastmcp").setLevel(logging.WARNING)
    server = build_server(engine, version=distribution_version("codequarry"))
    try:
        if stdio:
            # A read of stdin cannot be cancelled, so that an orderly end would wait for the client; nothing is lost.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            server.run("stdio", show_banner=False)
        else:
            from codequarry.serving.http import serve_http

            name = engine.bundle.manifest.version
            serve_http(server, serving, engine.health, lambda url: typer.echo(f"serving {name} at {url}", err=True))
    finally:
        engine.close()


def _bound(serving: ServingSettings, host: str | None, port: int | None) -> ServingSettings:
    given = {"host": host, "port": port}
    changed = {name: value for name, value in given.items() if value is not None}
    if port is not None and not 0 <= port <= 65_535:
        raise InvalidArgumentError(f"--port {port}: expected 0 to 65535", suggestion="leave it out, or give 0")
    return serving.model_copy(update=changed)


def tools() -> None:
    """Print what MCP clients get from tools/list, as JSON.

    Example: codequarry tools
    """
    from codequarry.serving.mcp_server import listed_tools

    typer.echo(json.dumps({"tools": listed_tools()}, ensure_ascii=False, indent=2))
