"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codequarry.schemas.settings import Settings, load_settings

RootOption = Annotated[
    Path | None, typer.Option("--root", help="Bundle root.", show_default="[bundle] root of the settings")
]
SettingsOption = Annotated[
    Path | None, typer.Option("--settings", help="Settings file.", show_default="./dagster_project.toml if there")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def configured(settings_file: Path | None, root: Path | None) -> Settings:
    """The settings with the root given on the command line."""
    settings = load_settings(settings_file)
    if root is None:
        return settings
    return settings.model_copy(update={"bundle": settings.bundle.model_copy(update={"root": root.resolve()})})
