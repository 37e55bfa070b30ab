"""Commands ``codequarry settings`` and ``codequarry trust``: the settings, and trust in a folder's settings file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from codequarry.schemas.errors import InvalidArgumentError, NotFoundError
from codequarry.schemas.settings.file import find_settings
from codequarry.schemas.settings.load import SETTINGS_FILE, Settings, load_settings, read_requests
from codequarry.schemas.trust.trusted_folders import add_trust, is_trusted, remove_trust, trust_file, trusted_folders
from codequarry.serving.cli.options import JsonOption, SettingsOption
from codequarry.serving.cli.terminal import for_terminal, print_table


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("settings")(settings)
    app.command("trust")(trust)


def settings(as_json: JsonOption = False, settings_file: SettingsOption = None) -> None:
    """List every setting: current value, default, meaning.

    Example: codequarry settings --json
    """
    current = load_settings(settings_file)
    rows = [row for section in Settings.model_fields for row in _section(section, getattr(current, section))]
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    print_table(
        ("key", "value", "default", "description"),
        ((row["key"], json.dumps(row["value"]), json.dumps(row["default"]), row["description"]) for row in rows),
        whole=1,
    )


def _section(name: str, values: BaseModel) -> list[dict[str, Any]]:
    dumped = values.model_dump(mode="json")
    defaults = type(values).model_construct().model_dump(mode="json")
    return [
        {
            "key": f"{name}.{key}",
            "value": dumped[key],
            "default": defaults[key],
            "environment": f"CODEQUARRY__{name}__{key}".upper(),
            "description": field.description or "",
        }
        for key, field in type(values).model_fields.items()
    ]


def trust(
    folder: Annotated[Path, typer.Argument(help="The folder of the settings file.", show_default="here")] = Path(),
    show: Annotated[bool, typer.Option("--show", help="Say what the file asks for, and trust nothing.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List the folders that are trusted.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Trust the folder no longer.")] = False,
) -> None:
    """Let the dagster_project.toml of a folder name programs, addresses, keys, models and places outside of it.

    Until then a file that merely lies in the current folder may not, since whoever wrote the repository wrote it too.
    Trust is for the file as it is: when it changes, it has to be given again. A file named with --settings needs none.

    Examples:

      codequarry trust --show

      codequarry trust ~/src/app

      codequarry trust --list

      codequarry trust --remove ~/src/app
    """
    if sum((show, list_all, remove)) > 1:
        raise InvalidArgumentError(
            "found several of --show, --list and --remove, expected one of them", suggestion="ask one by one"
        )
    if list_all:
        _list()
    elif remove:
        _remove(folder)
    else:
        _trust(folder, only_show=show)


def _trust(folder: Path, *, only_show: bool) -> None:
    place = find_settings(folder / SETTINGS_FILE, "here", named=False)
    raw, requests = read_requests(place.folder / SETTINGS_FILE)
    if not requests:
        typer.echo(f"{place.folder / SETTINGS_FILE} asks for nothing that needs trust")
        return
    typer.echo(f"{for_terminal(str(place.folder / SETTINGS_FILE))} asks for:")
    for request in requests:
        typer.echo(f"  {request}  ({request.reach.value})")
    if only_show:
        state = "trusted" if is_trusted(place.folder, raw) else "not trusted"
        typer.echo(f"The folder is {state}.")
        return
    add_trust(place.folder, raw)
    typer.echo(f"The folder is trusted until the file changes ({trust_file()}).")


def _list() -> None:
    for folder in sorted(trusted_folders()):
        file = Path(folder) / SETTINGS_FILE
        try:
            state = "" if is_trusted(Path(folder), file.read_bytes()) else "  the file has changed since"
        except OSError:
            state = "  the file is gone"
        typer.echo(f"{for_terminal(folder)}{state}")


def _remove(folder: Path) -> None:
    if not remove_trust(folder):
        raise NotFoundError(
            f"{os.path.realpath(folder)} is not trusted", suggestion="`codequarry trust --list` lists the folders"
        )
    typer.echo(f"{for_terminal(os.path.realpath(folder))} is trusted no longer")
