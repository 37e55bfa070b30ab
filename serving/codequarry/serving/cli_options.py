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
