"""Command ``codequarry usage``: what answers cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import Settings, load_settings
from codequarry.serving.cli.options import JsonOption, SettingsOption
from codequarry.serving.cli.terminal import echo_json, for_terminal, print_table, say
from codequarry.serving.telemetry.usage import CHARACTERS_PER_TOKEN, AnswerSums, Usage, read_timeline, sum_usage

_HEAD = ("calls", "failed", "repeats", "text tokens", "per call", "structured tokens", "per call")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("usage")(usage)


def usage(
    since: Annotated[str, typer.Option(help="A day such as 2026-11-01, or a number of days such as 7d.")] = "",
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Sum up what answers cost, from the timeline of the server.

    A token is counted as four characters. Text is what a model reads; structured content is the same answer for
    programs, which some clients show to the model too. Nothing is compared with how an agent would do without.

    Example: codequarry usage --since 7d
    """
    start = _start(since, datetime.now(UTC))
    settings = load_settings(settings_file, look="up")
    found = sum_usage(read_timeline(settings.telemetry.folder), start.timestamp() if start else 0.0)
    if as_json:
        echo_json(found.as_dict())
    elif found.tools:
        _show(found)
    else:
        _explain_none(settings, start)


def _start(since: str, now: datetime) -> datetime | None:
    """Return the moment that ``--since`` means, UTC; None for the beginning."""
    if not since:
        return None
    try:
        if days := re.fullmatch(r"(\d{1,5})d", since):
            return now - timedelta(days=int(days[1]))
        return datetime.strptime(since, "%Y-%m-%d").replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidArgumentError(
            f"--since {since}: expected a day or a number of days", suggestion="e.g. --since 2026-11-01 or --since 7d"
        ) from None


def _show(found: Usage) -> None:
    print_table(("tool", *_HEAD), _rows(found.tools), whole=len(_HEAD) + 1)
    print_table(("day (UTC)", *_HEAD), _rows(found.days), whole=len(_HEAD) + 1)
    values = found.as_dict()
    say(f"From {values['first']} to {values['last']}; a token is counted as {CHARACTERS_PER_TOKEN} characters.")
    say(
        f"{found.searches} answers held results, and something was fetched of {found.searches_read} of them. "
        f"{found.fetched} objects were fetched, {found.fetched_from_results} of them out of such results."
    )
    say("Repeats are calls with the arguments of an earlier call by the same client, while one server ran.")
    if found.unreadable:
        say(f"{found.unreadable} lines of the timeline could not be read.")


def _rows(sums: Mapping[str, AnswerSums]) -> list[tuple[str, ...]]:
    return [
        (for_terminal(name), *(f"{value:,.0f}" for value in one.as_dict().values()))
        for name, one in sorted(sums.items(), key=lambda pair: pair[0])
    ]


def _explain_none(settings: Settings, start: datetime | None) -> None:
    folder = settings.telemetry.folder
    if settings.telemetry.timeline == "file":
        period = f" since {start:%Y-%m-%d}" if start else ""
        say(f"The timeline in {folder} holds no answers{period}: the server has answered nothing with it switched on.")
        return
    say(
        "There is no timeline to read: the server writes none yet. To switch it on, put these lines into "
        "dagster_project.toml and start the server again:"
    )
    typer.echo('  [telemetry]\n  timeline = "file"')
    say(f"It is written to {folder}. It holds no queries unless telemetry.queries is set.")
