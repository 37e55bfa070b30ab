"""Command ``codequarry token``, and the command line by which a client starts the server."""

from __future__ import annotations

import hashlib
import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.file import find_settings
from codequarry.schemas.settings.load import SETTINGS_FILE
from codequarry.schemas.settings.service import AuthSettings
from codequarry.schemas.trust.trusted_folders import is_trusted


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("token")(token)


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
