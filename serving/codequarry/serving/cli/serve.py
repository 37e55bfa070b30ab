"""Commands ``codequarry serve`` and ``codequarry tools``."""

from __future__ import annotations

import faulthandler
import json
import sys
from collections.abc import Sequence
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codequarry.schemas.errors import InvalidArgumentError, SettingsError
from codequarry.schemas.settings.load import ServingSettings, Settings, load_settings
from codequarry.serving.cli.clients import stdio_command
from codequarry.serving.cli.install.clients import ANNOUNCED, Server, snippet
from codequarry.serving.cli.options import RootOption, SettingsOption, lent_to
from codequarry.serving.cli.terminal import log_to_stderr, take_over_fastmcp
from codequarry.serving.http.host_guard import is_loopback, open_patterns

if TYPE_CHECKING:
    from codequarry.serving.engine.tool_engine import ToolEngine

PROFILE_NAMES = ("default", "full", "chatgpt")
_FOLLOW_S = 0.2
"""Longest time between two readings of CURRENT with ``--watch``."""

ProfileOption = Annotated[
    str, typer.Option(help="default, full: every tool and argument, or chatgpt: OpenAI's search and fetch alone.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("serve")(serve)
    app.command("tools")(tools)


def serve(
    context: typer.Context,
    stdio: Annotated[bool, typer.Option("--stdio", help="Speak MCP on stdin and stdout, for a local client.")] = False,
    host: Annotated[str | None, typer.Option(help="Address to bind.", show_default="[serving] host")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to bind; 0 = any free one.", show_default="[serving] port")
    ] = None,
    profile: ProfileOption = "default",
    allow_unauthenticated: Annotated[
        bool, typer.Option("--allow-unauthenticated", help="Bind beyond loopback although nobody needs a token.")
    ] = False,
    allow_any_host: Annotated[
        bool,
        typer.Option("--allow-any-host", help="Answer to any Host and Origin where allowed_hosts or _origins say so."),
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Watch the repositories too: each save is searchable a moment later.")
    ] = False,
    fleet: Annotated[
        str,
        typer.Option(
            metavar="FOLDER|URL",
            help="Serve a fleet: the folder that `codequarry fleet pull` fills, or the URL of its place, of which each "
            "generation is pulled beside the server.",
        ),
    ] = "",
    share: Annotated[
        str,
        typer.Option(metavar="K/N", help="Share of the fleet to pull from its URL, such as 2/8.", show_default="1/1"),
    ] = "",
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Serve the current bundle over MCP, or with --fleet all bundles of a fleet or of a share as if they were one.

    Over HTTP all profiles are served: default at /mcp, full at /mcp/all, chatgpt at /chatgpt/mcp, with /healthz and
    /metrics beside them; --profile chooses one for --stdio. With --stdio and --root, settings are taken from --settings
    alone and not from the current folder, which is whichever the client works in. With --watch, `codequarry watch`
    runs in a process beside the server and ends with it; what is not indexed yet is indexed first. So does `codequarry
    fleet follow` with --fleet URL; --root is the folder that it fills then.

    Example: codequarry serve --stdio

    Example: codequarry serve --stdio --watch

    Example: codequarry serve --fleet s3://search/fleet --share 2/8 --port 8321

    Example: codequarry serve --port 8321    (then connect to http://127.0.0.1:8321/mcp)
    """
    if stdio and (host is not None or port is not None):
        raise InvalidArgumentError("--stdio and --host or --port", suggestion="give --stdio alone, or leave it out")
    if profile not in PROFILE_NAMES or (profile != "default" and not stdio):
        raise InvalidArgumentError(
            f"--profile {profile}",
            suggestion="give default, full or chatgpt with --stdio; over HTTP each has a path of its own",
        )
    remote = "://" in fleet
    if fleet and (watch or (root is not None and not remote)):
        raise InvalidArgumentError(
            f"--fleet with {'--watch' if watch else '--root'}",
            suggestion="give --fleet alone: it names the bundles; `codequarry fleet pull` brings new ones",
        )
    if share and not remote:
        raise InvalidArgumentError(
            "--share without the URL of a fleet", suggestion="give --fleet s3://BUCKET/PREFIX, or leave --share out"
        )
    if watch and (watching := lent_to(context).watching) is not None:
        context.with_resource(watching(root, settings_file))
    replica = _follow(context, fleet, share, root, settings_file) if remote else Path(fleet) if fleet else None
    bundle_root = root if replica is None else None
    log_to_stderr()
    # A mapped file that is shortened between check and use ends the process; then this says where.
    faulthandler.enable(sys.__stderr__ or sys.stderr)
    # A client starts it in the folder it works in: settings in that folder are not the operator's.
    settings = load_settings(settings_file, bundle_root=bundle_root, look="nowhere" if stdio and bundle_root else "up")
    serving = bind(settings.serving, host, port)
    if watch:
        interval = min(serving.follow_interval_s, _FOLLOW_S)
        serving = serving.model_copy(update={"follow_interval_s": interval})
    if not stdio:
        check_door(settings, serving, allow_unauthenticated=allow_unauthenticated, allow_any_host=allow_any_host)
    if settings.telemetry.to_disk and settings.telemetry.folder.is_relative_to(replica or settings.bundle.root):
        raise SettingsError(
            "telemetry.folder lies inside of bundle.root",
            suggestion="choose a folder outside of it",
        )
    # Open the engine before the imports below: the query encoder loads on its own thread meanwhile.
    observed = not stdio or settings.telemetry.timeline != "off" or settings.telemetry.pools
    engine = (
        _open_bundle(context, settings, serving, stdio=stdio, observed=observed)
        if replica is None
        else _open_fleet(replica, settings, serving, observed=observed)
    )
    place = ("--root", str(settings.bundle.root)) if replica is None else ("--fleet", str(replica.absolute()))
    answer_clients(
        engine, settings, serving, profile=profile if stdio else "", command=("serve", "--stdio", *place),
        settings_file=settings_file,
    )  # fmt: skip


def _follow(context: typer.Context, url: str, share: str, root: Path | None, settings_file: Path | None) -> Path:
    """Pull each generation of a fleet beside the server; return the folder of the replica once one is held."""
    following = lent_to(context).following
    if following is None:
        raise InvalidArgumentError(
            f"--fleet {url} is a place in object storage, which this program does not read",
            suggestion="run `codequarry fleet follow`, and give --fleet the folder that it fills",
        )
    return context.with_resource(following(url, share or "1/1", root, settings_file))


def answer_clients(
    engine: ToolEngine,
    settings: Settings,
    serving: ServingSettings,
    *,
    profile: str,
    command: Sequence[str],
    settings_file: Path | None,
) -> None:
    """Answer clients until they end, and close the engine.

    Args:
        engine: Engine that answers.
        settings: Settings of the command line.
        serving: The same, with address and port of the command line.
        profile: Profile to serve over stdio; "" for all over HTTP.
        command: Command and options by which a client starts the same server over stdio.
        settings_file: Settings file of the command line.
    """
    from codequarry.serving.server.mcp import build_server

    take_over_fastmcp()
    version = distribution_version("codequarry")
    try:
        if profile:
            from codequarry.serving.page.mcp_app import read_app_resource
            from codequarry.serving.server.stdio import close_before_ending

            telemetry = engine.telemetry
            close_before_ending(telemetry.close if telemetry is not None else lambda: None)
            server = build_server(engine, version=version, profile=profile, app=read_app_resource)
            server.run("stdio", show_banner=False)
        else:
            from codequarry.schemas.bundle.layout import BundleRoot
            from codequarry.serving.engine.engine import Engine
            from codequarry.serving.fleet.fleet_engine import FleetEngine
            from codequarry.serving.fleet.replica_door import ReplicaDoor
            from codequarry.serving.http.app import Service, serve_http
            from codequarry.serving.http.auth import build_auth

            routers = settings.auth.routers
            door = ReplicaDoor(engine) if routers and isinstance(engine, FleetEngine) else None
            root = BundleRoot(settings.bundle.root) if isinstance(engine, Engine) else None
            service = Service(engine, version, build_auth(settings.auth), door, routers, root)
            name = engine.version_name or "the first version, once it is made,"
            started = stdio_command(command, settings_file)
            serve_http(service, serving, lambda url: typer.echo(_announced(name, url, settings, started), err=True))
    finally:
        engine.close()


def _open_bundle(
    context: typer.Context, settings: Settings, serving: ServingSettings, *, stdio: bool, observed: bool
) -> ToolEngine:
    from codequarry.serving.engine.engine import Engine

    engine = Engine.open(settings.bundle.root, serving, first=lent_to(context).first)
    if observed:
        from codequarry.serving.telemetry.telemetry import Telemetry

        engine.telemetry = Telemetry(settings.telemetry, engine.served.lease)
    if stdio:
        from codequarry.serving.engine.local_files import LocalFiles
        from codequarry.serving.engine.working_tree import WorkingTree

        engine.local_files = LocalFiles.of(settings.bundle.root)
        if engine.refs is not None:
            engine.refs.tree = WorkingTree(settings.bundle.root, Path.cwd())
    return engine


def _open_fleet(folder: Path, settings: Settings, serving: ServingSettings, *, observed: bool) -> ToolEngine:
    if settings.telemetry.pools:
        raise SettingsError(
            "telemetry.pools is on, and candidates of a fleet are not written",
            suggestion="leave it off with --fleet",
        )
    from codequarry.serving.fleet.replica_follower import open_replica

    engine = open_replica(folder, serving)
    if settings.auth.routers:
        from codequarry.serving.fleet.replica_door import KEEPS_BEFORE_S

        engine.keeps_before_s = KEEPS_BEFORE_S
    if observed:
        from codequarry.serving.telemetry.telemetry import Telemetry

        engine.telemetry = Telemetry(settings.telemetry)
    return engine


def check_door(
    settings: Settings, serving: ServingSettings, *, allow_unauthenticated: bool, allow_any_host: bool
) -> None:
    """Check that a service over HTTP is as open as its operator asked for, and warn where it is very open.

    Args:
        settings: Settings of the command line.
        serving: The same, with the address of the command line.
        allow_unauthenticated: Other machines may call although nobody needs a token.
        allow_any_host: The guard against DNS rebinding may be off.

    Raises:
        InvalidArgumentError: It is more open than that.
    """
    if not allow_unauthenticated and not settings.auth.required and not is_loopback(serving.host):
        raise InvalidArgumentError(
            f"--host {serving.host} is reached from other machines, and nobody needs a token",
            suggestion="make one with `codequarry token NAME`, or give --allow-unauthenticated behind a proxy",
        )
    patterns = open_patterns(serving)
    if not patterns:
        return
    named = ", ".join(f'"{pattern}"' for pattern in patterns)
    if not allow_any_host:
        raise InvalidArgumentError(
            f"serving.allowed_hosts or serving.allowed_origins hold {named}, which fits any name: no page is kept out",
            suggestion="name the hosts and origins that may call, or give --allow-any-host",
        )
    typer.echo(f"warning: {named} turns the guard against DNS rebinding off: any web page may call.", err=True)


def _announced(version: str, url: str, settings: Settings, command: tuple[str, ...]) -> str:
    """Return the startup message: what is served where, and how the usual clients reach it."""
    by_url = Server(url=url, token=settings.auth.required)
    started = Server(command)
    page = f"for people at {url}/; " if settings.serving.page else ""
    lines = [
        f"serving {version} at {url}/mcp",
        f"{page}for ChatGPT at {url}/chatgpt/mcp; {url}/healthz, {url}/metrics",
        "",
    ]
    for client in ANNOUNCED:
        # A client on this machine that can start the server needs no bridge to a URL.
        found = snippet(client, started if client == "claude-desktop" else by_url)
        lines += [f"{found.title}, {found.where}:", *(f"  {line}" for line in found.text.splitlines()), ""]
    lines += [f"`codequarry install --url {url}` knows more clients, and writes their files.", ""]
    return "\n".join(lines)


def bind(serving: ServingSettings, host: str | None, port: int | None) -> ServingSettings:
    """Return the settings with the address and port of a command line; raises InvalidArgumentError for no port."""
    given = {"host": host, "port": port}
    changed = {name: value for name, value in given.items() if value is not None}
    if port is not None and not 0 <= port <= 65_535:
        raise InvalidArgumentError(f"--port {port}: expected 0 to 65535", suggestion="leave it out, or give 0")
    return serving.model_copy(update=changed)


def tools(profile: ProfileOption = "default") -> None:
    """Print what MCP clients get from tools/list, as JSON.

    Example: codequarry tools
    """
    from codequarry.serving.server.mcp import listed_tools

    if profile not in PROFILE_NAMES:
        raise InvalidArgumentError(f"--profile {profile}", suggestion="give default, full or chatgpt")
    listed = listed_tools(profile, page=load_settings(look="up").serving.page)
    typer.echo(json.dumps({"tools": listed}, ensure_ascii=False, indent=2))
