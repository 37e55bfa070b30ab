"""Command ``codequarry settings``, and the table in which lists are printed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import typer
from pydantic import BaseModel

from codequarry.schemas.settings.load import Settings, load_settings
from codequarry.serving.cli.options import JsonOption, SettingsOption

_WIDEST = 10_000


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("settings")(settings)


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


def print_table(
    head: tuple[str, ...], rows: Iterable[tuple[str, ...]], *, whole: int, caption: str | None = None
) -> None:
    """Print a table.

    Args:
        head: Names of the columns.
        rows: Cells of each row.
        whole: Number of columns, from the left, that are never folded, so that names can be copied. When that is all of
            them, the table is as wide as it needs to be.
        caption: Text below the table.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, caption=caption, caption_justify="left")
    for place, name in enumerate(head):
        table.add_column(name, no_wrap=place < whole, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(highlight=False)
    if whole == len(head):
        needed = console.measure(table, options=console.options.update(max_width=_WIDEST)).maximum
        console.width = max(console.width, needed)
    console.print(table)
