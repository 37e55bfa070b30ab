"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from codequarry.serving.engine.first_version import FirstVersion


@dataclass(frozen=True, slots=True)
class Lent:
    """Help that the layer above lends to commands of this one, which start no program; the context's object."""

    first: FirstVersion | None = None
    """Progress of the first version, where it is made beside the command."""
    commits_between: Callable[[Path, str, str], tuple[int, int] | None] | None = None
    """Returns, for a work tree, how many commits the second one has and the first lacks, and the other way round."""
    watching: Callable[[Path | None, Path | None], AbstractContextManager[None]] | None = None
    """Watches the repositories while its block runs; takes bundle root and settings file of the command line."""
    following: Callable[[str, str, Path | None, Path | None], AbstractContextManager[Path]] | None = None
    """Pulls each generation of a fleet while its block runs, and gives the folder of the replica; takes URL and share
    of the fleet, and folder and settings file of the command line."""
    remember_results: Callable[[Sequence[str]], None] | None = None
    """Remembers the places of a search, ``PATH:LINE`` each, for a command that opens one of them."""


def lent_to(context: typer.Context) -> Lent:
    """Return the help that is lent to a command; none where it runs by itself."""
    return context.find_object(Lent) or Lent()


RootOption = Annotated[
    Path | None, typer.Option("--root", help="Bundle root.", show_default="[bundle] root of the settings")
]
SettingsOption = Annotated[
    Path | None, typer.Option("--settings", help="Settings file.", show_default="./dagster_project.toml if there")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

PathsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[PATH]...", help="Only in these files and folders, or paths that match these globs."),
]
LangOption = Annotated[list[str] | None, typer.Option(help="Only this language; may be repeated.")]
IncludeOption = Annotated[list[str] | None, typer.Option(help="Only paths matching this glob; may be repeated.")]
ExcludeOption = Annotated[list[str] | None, typer.Option(help="Not paths matching this glob; may be repeated.")]
RepoOption = Annotated[list[str] | None, typer.Option(help="Only this repository; may be repeated.")]
RefOption = Annotated[str, typer.Option(help="Another indexed branch, as `codequarry versions` lists them.")]
SymbolOption = Annotated[list[str] | None, typer.Option(help="Only chunks of this definition; may be repeated.")]
KindOption = Annotated[
    list[str] | None, typer.Option(help="Only definitions of this kind: function, method, class, …; may be repeated.")
]


def filters_of(**given: list[str] | str | None) -> dict[str, list[str] | str]:
    """Return the filters of a request, from options that may be left out.

    >>> filters_of(lang=["go"], include=None)
    {'lang': ['go']}
    """
    return {name: values for name, values in given.items() if values}
