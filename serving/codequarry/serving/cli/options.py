"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RootOption = Annotated[
    Path | None, typer.Option("--root", help="Bundle root.", show_default="[bundle] root of the settings")
]
SettingsOption = Annotated[
    Path | None, typer.Option("--settings", help="Settings file.", show_default="./dagster_project.toml if there")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

LangOption = Annotated[list[str] | None, typer.Option(help="Only this language; may be repeated.")]
IncludeOption = Annotated[list[str] | None, typer.Option(help="Only paths matching this glob; may be repeated.")]
ExcludeOption = Annotated[list[str] | None, typer.Option(help="Not paths matching this glob; may be repeated.")]
RepoOption = Annotated[list[str] | None, typer.Option(help="Only this repository; may be repeated.")]
SymbolOption = Annotated[list[str] | None, typer.Option(help="Only chunks of this definition; may be repeated.")]
KindOption = Annotated[
    list[str] | None, typer.Option(help="Only definitions of this kind: function, method, class, …; may be repeated.")
]


def filters_of(**given: list[str] | None) -> dict[str, list[str]]:
    """Return the filters of a request, from options that may be left out.

    >>> filters_of(lang=["go"], include=None)
    {'lang': ['go']}
    """
    return {name: values for name, values in given.items() if values}
