"""``codequarry fleet watch``: build the fleet whenever a repository moves."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from contextlib import ExitStack
from datetime import datetime
from typing import Annotated

import typer

from codequarry.pipelines.cli.fleet.report import print_build, tell
from codequarry.pipelines.cli.repositories import SettingsOption
from codequarry.pipelines.store.processes import ending_groups
from codequarry.schemas.errors import SettingsError
from codequarry.schemas.resources import return_freed_memory
from codequarry.schemas.settings.load import Settings, load_settings
from codequarry.schemas.wording import counted

SECRET_VARIABLE = "CODEQUARRY_WEBHOOK_SECRET"
"""Environment variable with the secrets of webhooks, apart by spaces."""
DeltaOption = Annotated[
    bool | None,
    typer.Option(
        "--delta/--full",
        help="Build a delta version of a bundle where few files changed; or complete versions in any case.",
        show_default="[bundle] delta of the settings",
    ),
]
_REFUSED_EVERY_S = 10.0
"""Seconds between two lines about refused webhooks: anybody can send them."""


def watch(
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65_535,
            help="Port for webhooks; 0 = any free one.",
            show_default="none: polls alone",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to bind for webhooks.")] = "127.0.0.1",
    every: Annotated[
        float, typer.Option(min=1, max=86_400, help="Seconds in which every repository is asked once for its head.")
    ] = 300.0,
    delta: DeltaOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Stay, and build the fleet as soon as one of its repositories moves, until Ctrl-C.

    With --port, GitHub, GitLab, Gitea and Forgejo tell pushes by webhooks at /webhook, signed with the secret of the
    environment variable CODEQUARRY_WEBHOOK_SECRET. Pushes of a moment are one build, in which only their bundles are
    looked at. Repositories are also asked for their heads in turn, for webhooks that are missing. The settings file is
    read again before each build, so repositories may be added to it. An error is said, and the watch goes on.

    Examples:

      codequarry fleet watch

      codequarry fleet watch --port 8330 --every 3600    (behind a proxy with TLS)
    """
    serving = load_settings(settings_file, look="above").serving
    return_freed_memory()
    from codequarry.pipelines.fleet.bundle_builds import BuildMode
    from codequarry.pipelines.fleet.fleet_build import FleetBuild, build_fleet
    from codequarry.pipelines.fleet.fleet_watch import FleetWatch
    from codequarry.pipelines.fleet.pushes.push_event import PushEvent
    from codequarry.pipelines.fleet.pushes.webhook_server import listening, webhook_app

    def load() -> Settings:
        return load_settings(settings_file, look="above")

    said: dict[str, str] = {}
    refused_at = -_REFUSED_EVERY_S

    def say_once(sentence: str) -> None:
        """Say what is new about a bundle: each turn looks at work trees and at what failed again."""
        bundle = sentence.partition(" ")[0]
        if said.get(bundle) != sentence:
            said[bundle] = sentence
            _say(sentence)

    def build(settings: Settings, asked: Collection[str]) -> FleetBuild:
        mode = BuildMode(settings.bundle.delta if delta is None else delta, delta is False)
        done = build_fleet(settings, tell=say_once, mode=mode, asked=asked)
        if not done.unchanged:
            print_build(done)
        return done

    def say_refusal(why: str) -> None:
        nonlocal refused_at
        if (now := time.monotonic()) >= refused_at + _REFUSED_EVERY_S:
            refused_at = now
            _say(f"refused a webhook: {why}")

    def queue(push: PushEvent) -> tuple[str, ...]:
        names = tuple(fleet.queue(push))
        _say(f"{push.ref} of {push.called} moved: {', '.join(names) or 'no repository of the settings is read there'}")
        return names

    fleet = FleetWatch(load, build, _say, every_s=every)
    try:
        with ending_groups(interrupting=True), ExitStack() as open_for_webhooks:
            heard = ""
            if port is not None:
                app = webhook_app(_secrets(), queue, say_refusal, fleet.state)
                url = open_for_webhooks.enter_context(listening(app, serving, host, port))
                heard = f" and hears webhooks at {url}"
            tell(f"the watch asks {counted(fleet.repositories, 'repository')} every {every:g} s{heard}; Ctrl-C ends it")
            fleet.run()
    except KeyboardInterrupt:
        tell("stopped watching the fleet")


def _secrets() -> tuple[str, ...]:
    found = tuple(os.environ.get(SECRET_VARIABLE, "").split())
    if not found:
        raise SettingsError(
            f"{SECRET_VARIABLE} of the environment is not set, and nobody may start builds without a secret",
            suggestion="put a long random text into it, as of `openssl rand -hex 32`, and give it to the webhook",
        )
    return found


def _say(sentence: str) -> None:
    tell(f"{datetime.now():%H:%M:%S}  {sentence}")
