"""``codequarry versions`` and ``codequarry settings``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import typer
from pydantic import BaseModel

from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.integrity import read_manifest
from codequarry.schemas.layout import BundleRoot
from codequarry.schemas.settings import Settings, load_settings
from codequarry.serving.cli_options import JsonOption, RootOption, SettingsOption


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("versions")(versions)
    app.command("settings")(settings)


def versions(as_json: JsonOption = False, root: RootOption = None, settings_file: SettingsOption = None) -> None:
    """List the published versions, oldest first.

    Example: codequarry versions
    """
    bundle_root = BundleRoot(load_settings(settings_file, bundle_root=root).bundle.root)
    current = bundle_root.read_current().version
    rows = [_version(bundle_root, name, current) for name in bundle_root.version_names()]
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    head = ("", "version", "age", "files", "chunks", "size", "commits")
    _print_table(head, map(_version_cells, rows), whole=6, caption="* current")


def _version(bundle_root: BundleRoot, name: str, current: str) -> dict[str, Any]:
    row: dict[str, Any] = {"version": name, "current": name == current}
    try:
        manifest = read_manifest(bundle_root.version(name))
    except UnavailableError as error:
        return {**row, "problem": error.message}
    created = datetime.fromisoformat(manifest.created)
    return {
        **row,
        "created": manifest.created,
        "age_s": int((datetime.now(UTC) - created).total_seconds()),
        "commits": {source.name: source.revision for source in manifest.sources},
        "files": manifest.counts.files,
        "chunks": manifest.counts.chunks,
        "size_bytes": sum(entry.size_bytes for entry in manifest.files),
    }


def _version_cells(row: dict[str, Any]) -> tuple[str, ...]:
    mark = "*" if row["current"] else ""
    if "problem" in row:
        return (mark, row["version"], "", "", "", "", row["problem"])
    counts = (f"{row['files']:,}", f"{row['chunks']:,}", f"{row['size_bytes'] / 1e6:.1f} MB")
    commits = ", ".join(f"{name} {_short(commit)}".rstrip() for name, commit in row["commits"].items())
    return (mark, row["version"], _age(row["age_s"]), *counts, commits)


def _short(revision: str) -> str:
    commit, plus, dirty = revision.partition("+")
    return commit[:12] + plus + dirty


def _age(seconds: int) -> str:
    """The largest whole unit: ``3 h``."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def settings(as_json: JsonOption = False, settings_file: SettingsOption = None) -> None:
    """List every setting: current value, default, meaning.

    Example: codequarry settings --json
    """
    current = load_settings(settings_file)
    rows = [row for section in Settings.model_fields for row in _section(section, getattr(current, section))]
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    _print_table(
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


def _print_table(
    head: tuple[str, ...], rows: Iterable[tuple[str, ...]], *, whole: int, caption: str | None = None
) -> None:
    """Print a table. whole: how many columns, from the left, are never folded, so that names can be copied."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, caption=caption, caption_justify="left")
    for place, name in enumerate(head):
        table.add_column(name, no_wrap=place < whole, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)
