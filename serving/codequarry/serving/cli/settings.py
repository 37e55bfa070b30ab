"""Commands ``codequarry settings`` and ``codequarry trust``: the settings, and trust in a folder's settings file."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from codequarry.schemas.errors import InvalidArgumentError, NotFoundError
from codequarry.schemas.settings.file import find_settings
from codequarry.schemas.settings.load import SETTINGS_FILE, Settings, load_settings, read_requests
from codequarry.schemas.trust.trusted_folders import add_trust, is_trusted, remove_trust, trust_file, trusted_folders
from codequarry.schemas.wording import counted
from codequarry.serving.cli.options import JsonOption, SettingsOption
from codequarry.serving.cli.terminal import for_terminal, print_table


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("settings")(settings)
    app.command("trust")(trust)


def settings(
    of: Annotated[
        str,
        typer.Argument(metavar="[SECTION|KEY]", help="A section, or one key.", show_default="what differs"),
    ] = "",
    every: Annotated[bool, typer.Option("--all", help="List every setting.")] = False,
    as_json: JsonOption = False,
    settings_file: SettingsOption = None,
) -> None:
    """Show settings: current value, default, meaning, and the environment variable that sets it.

    Without a section or a key, the settings that differ from their defaults, and the names of the sections.

    Example: codequarry settings

    Example: codequarry settings checks

    Example: codequarry settings bundle.keep

    Example: codequarry settings --json
    """
    current = load_settings(settings_file)
    rows = [row for section in Settings.model_fields for row in _section(section, getattr(current, section))]
    chosen = _choose(rows, of) if of else rows
    if as_json:
        typer.echo(json.dumps(chosen, ensure_ascii=False, indent=2))
    elif of or every:
        _show(chosen)
    else:
        _show_changed(rows)


def _choose(rows: Sequence[dict[str, Any]], of: str) -> list[dict[str, Any]]:
    """Return the settings of a section, or the one with a key.

    Raises:
        NotFoundError: Nothing is called so.
    """
    asked = of.strip("[]")
    if chosen := [row for row in rows if row["key"] == asked or row["key"].startswith(f"{asked}.")]:
        return chosen
    sections = dict.fromkeys(row["key"].partition(".")[0] for row in rows)
    known = [*sections, *(row["key"] for row in rows), *(row["key"].partition(".")[2] for row in rows)]
    near = get_close_matches(asked, known, n=3)
    found = [row["key"] for row in rows if row["key"] in near or row["key"].partition(".")[2] in (asked, *near)]
    raise NotFoundError(
        f"found no section and no key {for_terminal(of)!r}",
        suggestion=f"expected one of the sections {', '.join(sections)}, or a key such as "
        f"{(found or [rows[0]['key']])[0]}",
    )


def _show(rows: Sequence[dict[str, Any]]) -> None:
    """Print settings one below the other: they are read, and their descriptions are sentences."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False)
    for row in rows:
        default = "" if row["value"] == row["default"] else f"  (default {json.dumps(row['default'])})"
        line = Text.assemble((row["key"], "bold"), f" = {for_terminal(json.dumps(row['value']))}{default}")
        console.print(line, soft_wrap=not console.is_terminal)
        console.print(Padding(Text(row["description"]), (0, 0, 0, 4)))
        console.print(Padding(Text(row["environment"], style="dim"), (0, 0, 0, 4)))


def _show_changed(rows: Sequence[dict[str, Any]]) -> None:
    """Print the settings that differ from their defaults, and what else can be asked for."""
    changed = [row for row in rows if row["value"] != row["default"]]
    if changed:
        cells = ((row["key"], json.dumps(row["value"]), json.dumps(row["default"])) for row in changed)
        print_table(("key", "value", "default"), cells, whole=1)
    else:
        typer.echo("Every setting has its default.")
    counts = Counter(row["key"].partition(".")[0] for row in rows)
    sections = ", ".join(f"{section} ({count})" for section, count in counts.items())
    typer.echo(f"{counted(len(rows), 'setting')} by section: {sections}")
    typer.echo("`codequarry settings SECTION` shows one section, and `codequarry settings --all` all of them.")


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
