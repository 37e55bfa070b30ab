"""Command ``codequarry open``: the editor at a result of the last search, at a place, or at a definition."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, cast

import typer

from codequarry.schemas.errors import InvalidArgumentError, NotFoundError, UnavailableError
from codequarry.schemas.settings.load import Settings, load_settings
from codequarry.schemas.trust.user_folders import read_private, state_folder, write_private
from codequarry.schemas.wire.symbols import DefinitionRequest
from codequarry.serving.cli.finding.search import open_engine
from codequarry.serving.cli.finding.shell_paths import ShellPaths
from codequarry.serving.cli.options import RootOption, SettingsOption

_PLACE = re.compile(r"(.+?)(?::(\d{1,9}))?(?:[:-]\d+)?")
_NUMBER = re.compile(r"\[?(\d{1,2})\]?")
_AT_LINE = {
    **dict.fromkeys(("code", "code-insiders", "codium", "cursor", "windsurf"), ("--goto", "{file}:{line}")),
    **dict.fromkeys(("zed", "subl", "hx"), ("{file}:{line}",)),
    **dict.fromkeys(("idea", "pycharm", "goland", "webstorm", "clion", "rustrover"), ("--line", "{line}", "{file}")),
}
"""Arguments of editors that do not take ``+LINE FILE``, as vi, nano, emacs and most others do."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("open")(open_place)


def remember_results(places: Sequence[str]) -> None:
    """Remember the places of a search for ``codequarry open N``; a folder that cannot be written to is no matter.

    Args:
        places: ``PATH:LINE`` of each result, absolute, best first.
    """
    with contextlib.suppress(UnavailableError):
        write_private(_record(), {"places": list(places)})


def open_place(
    target: Annotated[
        str,
        typer.Argument(
            metavar="N|PLACE|NAME",
            help="Number of a result of the last search, PATH:LINE, or name of a definition.",
        ),
    ],
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Open your editor, $VISUAL or $EDITOR, at a result of the last search, at a place, or at a definition.

    Example: codequarry search "where is the config loaded" && codequarry open 1
    """
    settings = load_settings(settings_file, bundle_root=root, look="up")
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    if not editor:
        raise InvalidArgumentError("no editor is set", suggestion="set EDITOR, for example: export EDITOR=vim")
    if (number := _NUMBER.fullmatch(target)) is not None:
        place = _remembered(int(number[1]))
    elif (found := _PLACE.fullmatch(target)) is not None and Path(found[1]).is_file():
        place = f"{os.path.abspath(found[1])}:{found[2] or 1}"
    else:
        place = _definition(target, settings)
    file, _, line = place.rpartition(":")
    if not os.path.isfile(file):
        raise NotFoundError(f"{file} is not on this machine", suggestion="`codequarry fetch` prints what was indexed")
    arguments = _AT_LINE.get(Path(editor[0]).name, ("+{line}", "{file}"))
    try:
        done = subprocess.run([*editor, *(each.format(file=file, line=line) for each in arguments)], check=False)
    except OSError as error:
        raise UnavailableError(
            f"the editor {editor[0]!r} cannot be started: {error.strerror}",
            suggestion="set EDITOR to another one",
        ) from error
    raise typer.Exit(done.returncode)


def _remembered(number: int) -> str:
    """Return the place of a result of the last search; raises NotFoundError when there is none of that number."""
    places = cast("list[str]", read_private(_record()).get("places", []))
    if not 0 < number <= len(places):
        found = f"the last search had {len(places)} results" if places else "no search is remembered"
        raise NotFoundError(f"there is no result {number}: {found}", suggestion="search again in a terminal")
    return places[number - 1]


def _definition(name: str, settings: Settings) -> str:
    """Return the place of the first definition of a name; raises NotFoundError when it has none."""
    with open_engine(settings, channels=()) as engine:
        answer = engine.definitions(DefinitionRequest(symbol=name, limit=1))
    if not answer.results:
        raise NotFoundError(f"{name} is no file here and no definition", suggestion="give PATH:LINE, or search for it")
    first = answer.results[0]
    path = ShellPaths.of(settings.bundle.root).show(first.uri, answer.bundle)
    return f"{os.path.abspath(path)}:{first.start_line + 1}"


def _record() -> Path:
    return state_folder() / "last-search.json"
