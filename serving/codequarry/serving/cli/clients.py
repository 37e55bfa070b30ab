"""Command ``codequarry token``, and the command line by which a client starts the server."""

from __future__ import annotations

import hashlib
import json
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.file import find_settings
from codequarry.schemas.settings.load import SETTINGS_FILE
from codequarry.schemas.settings.service import GROUP_PREFIX, AuthSettings
from codequarry.schemas.trust.trusted_folders import is_trusted


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("token")(token)


def token(
    name: Annotated[str, typer.Argument(help="Who will use it: letters, digits, dots, dashes.")],
    repositories: Annotated[
        list[str] | None, typer.Option(help="Repositories that it may see, by name or glob; comma between several.")
    ] = None,
    groups: Annotated[
        list[str] | None, typer.Option(help="Groups of [auth.groups] that it holds; comma between several.")
    ] = None,
) -> None:
    """Make a bearer token for a client of the HTTP service.

    The token goes to the client and is shown this once; the settings hold only its hash. With --repositories or
    --groups the client sees these repositories alone. Once [auth.groups] or [auth.grants] are set, a token without a
    grant sees nothing.

    Example: codequarry token alice

    Example: codequarry token bob --repositories "billing,ledger-*" --groups payments
    """
    value, digest = new_token()
    try:
        AuthSettings(tokens=(f"{name}:{digest}",))
    except ValueError:
        raise InvalidArgumentError(
            "NAME: expected letters, digits, '.', '_' or '-', at most 64", suggestion="e.g. codequarry token alice"
        ) from None
    held, globs = _parts(groups), _parts(repositories)
    granted = [f"{GROUP_PREFIX}{group}" for group in held] + globs
    try:
        AuthSettings(
            tokens=(f"{name}:{digest}",),
            groups=dict.fromkeys(held, ()),
            grants={name: tuple(granted)} if granted else {},
        )
    except ValueError:
        raise InvalidArgumentError(
            "--repositories or --groups: a name is neither a glob over repositories nor a group",
            suggestion=f'e.g. codequarry token {name} --repositories "billing,ledger-*" --groups payments',
        ) from None
    typer.echo(f"token for {name}, shown once:\n  {value}\nadd to dagster_project.toml:\n  [auth]")
    typer.echo(f'  tokens = ["{name}:{digest}"]')
    if granted:
        typer.echo(f"  [auth.grants]\n  {json.dumps(name)} = {json.dumps(granted, ensure_ascii=False)}")


def _parts(given: list[str] | None) -> list[str]:
    """Return the names of an option that may be given several times, and hold several with commas."""
    return [part for one in given or () for each in one.split(",") if (part := each.strip())]


def new_token() -> tuple[str, str]:
    """Return a random bearer token, and its sha256 in hex."""
    token = secrets.token_urlsafe(32)
    return token, hashlib.sha256(token.encode()).hexdigest()


def trusted_here() -> tuple[str, ...]:
    """Return the option for the settings file of the current folder, when the user trusts it."""
    place = find_settings(None, "here")
    trusted = place.raw is not None and is_trusted(place.folder, place.raw)
    return ("--settings", str(place.folder / SETTINGS_FILE)) if trusted else ()


def stdio_command(place: Sequence[str], settings_file: Path | None = None) -> tuple[str, ...]:
    """Return the command by which a client starts the server over stdio.

    Paths are absolute, because clients start it in folders of their own.

    Args:
        place: Command and options that name what is served, such as ``serve --stdio --root ROOT``.
        settings_file: Settings file of the command line. That of the current folder is used only when it is trusted: on
            the client's command line it would be accepted whatever it asks for later.

    Returns:
        Program and arguments.
    """
    program = Path(sys.argv[0]).resolve()
    installed = program.name == "codequarry" and program.is_file()
    started = (str(program),) if installed else (sys.executable, "-m", "codequarry.pipelines.cli")
    settings = ("--settings", str(settings_file.resolve())) if settings_file else trusted_here()
    return (*started, *place, *settings)
