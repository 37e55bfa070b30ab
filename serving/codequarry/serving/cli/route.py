"""Command ``codequarry route``: one front for the replicas of a fleet."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from codequarry.schemas.errors import InvalidArgumentError, SettingsError
from codequarry.schemas.settings.load import load_settings
from codequarry.schemas.settings.model_servers import checked_url
from codequarry.serving.cli.options import SettingsOption
from codequarry.serving.cli.serve import PROFILE_NAMES, ProfileOption, answer_clients, bind, check_door
from codequarry.serving.cli.terminal import log_to_stderr


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("route")(route)


def route(
    replica: Annotated[
        list[str] | None,
        typer.Option(
            help="Address of a replica, such as http://10.0.0.7:8321; may be repeated.",
            show_default="[serving] replicas",
        ),
    ] = None,
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
    settings_file: SettingsOption = None,
) -> None:
    """Answer every tool over MCP from the replicas of a fleet, as if one server held all bundles.

    A replica is `codequarry serve --fleet FOLDER` on any machine, whose settings name this router's token in
    auth.routers; the token itself is in the environment variable CODEQUARRY_REPLICA_TOKEN here. This command holds no
    bundle. What a replica that is lost had is named in each answer.

    Example: codequarry route --replica http://10.0.0.7:8321 --replica http://10.0.0.8:8321
    """
    if stdio and (host is not None or port is not None):
        raise InvalidArgumentError("--stdio and --host or --port", suggestion="give --stdio alone, or leave it out")
    if profile not in PROFILE_NAMES or (profile != "default" and not stdio):
        raise InvalidArgumentError(
            f"--profile {profile}",
            suggestion="give default, full or chatgpt with --stdio; over HTTP each has a path of its own",
        )
    log_to_stderr()
    settings = load_settings(settings_file, look="up")
    serving = bind(settings.serving, host, port)
    if replica:
        serving = serving.model_copy(update={"replicas": tuple(dict.fromkeys(map(_address, replica)))})
    if not serving.replicas:
        raise InvalidArgumentError(
            "no replica is named", suggestion="give --replica http://HOST:PORT, or set replicas in [serving]"
        )
    if not os.environ.get(serving.replica_token):
        raise SettingsError(
            f"{serving.replica_token} of the environment is not set, and replicas answer routers with a token alone",
            suggestion="make one with `codequarry token router`, and name it in auth.routers of each replica",
        )
    if settings.telemetry.pools:
        raise SettingsError(
            "telemetry.pools is on, and candidates of a fleet are not written",
            suggestion="leave it off with `codequarry route`",
        )
    if not stdio:
        check_door(settings, serving, allow_unauthenticated=allow_unauthenticated, allow_any_host=allow_any_host)
    from codequarry.serving.fleet.router_engine import RouterEngine

    engine = RouterEngine(serving)
    if not stdio or settings.telemetry.timeline != "off":
        from codequarry.serving.telemetry.telemetry import Telemetry

        engine.telemetry = Telemetry(settings.telemetry)
    engine.follow()
    named = [part for url in serving.replicas for part in ("--replica", url)]
    answer_clients(
        engine, settings, serving, profile=profile if stdio else "", command=("route", "--stdio", *named),
        settings_file=settings_file,
    )  # fmt: skip


def _address(url: str) -> str:
    try:
        return checked_url(url)
    except ValueError as error:
        raise InvalidArgumentError(
            f"--replica {url[:200]!r}: {error}", suggestion="e.g. http://10.0.0.7:8321"
        ) from None
