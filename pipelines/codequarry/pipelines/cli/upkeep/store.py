"""``codequarry store``: what runs keep so that nothing is computed twice, and what it costs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from codequarry.pipelines.cli.progress import Bars
from codequarry.pipelines.cli.repositories import SettingsOption
from codequarry.schemas.settings.load import load_settings

store_app = typer.Typer(
    help="What runs keep so that nothing is computed twice: syntax, secrets, vectors, SCIP indexes, clones, encoders.",
    rich_markup_mode=None,
)


@store_app.callback(invoke_without_command=True)
def show(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print the costs as JSON.")] = False,
    settings_file: SettingsOption = None,
) -> None:
    """Print what store, work folder and versions take on the disk, by what takes it.

    The store keeps what was computed, so that nothing is computed twice: syntax, secrets, vectors of models, SCIP
    indexes, clones, encoders. A file that several versions share counts once, for the newest one.

    Examples:

      codequarry store

      codequarry store gc --dry-run
    """
    if context.invoked_subcommand is not None:
        return
    settings = load_settings(settings_file, look="above")
    from codequarry.pipelines.bundle.costs import disk_costs

    costs = disk_costs(settings)
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in costs], indent=1))
        return
    folders = {"store": settings.paths.store, "work": settings.paths.work, "versions": settings.bundle.root}
    answer = Console(highlight=False, markup=False, soft_wrap=not sys.stdout.isatty())
    table = Table("", "", Column("entries", justify="right"), Column("MB", justify="right"), box=None, padding=(0, 1))
    for place in folders:
        own = [each for each in costs if each.place == place]
        for each in own:
            entries = "?" if each.entries is None else f"{each.entries:,}"
            table.add_row(each.what, Text(each.name, overflow="ellipsis", no_wrap=True), entries, _mb(each.size_bytes))
        table.add_row(f"{place} in all", "", "", _mb(sum(each.size_bytes for each in own)), end_section=True)
    table.add_row("all", "", "", _mb(sum(each.size_bytes for each in costs)))
    Console(highlight=False, markup=False).print(table)
    for place, folder in folders.items():
        answer.print(f"{place}: {folder}")


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f}"


@store_app.command("gc")
def collect(
    days: Annotated[int, typer.Option(min=0, help="Keep what was used in the last days.")] = 30,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
    settings_file: SettingsOption = None,
) -> None:
    """Check every entry of the store, and remove damaged ones and what nothing used for long.

    What the repositories indexed last need stays, however old it is. Nothing in the store is the only copy of anything:
    what is missing is computed again.

    Examples:

      codequarry store gc --dry-run

      codequarry store gc --days 7
    """
    settings = load_settings(settings_file, look="above")
    from codequarry.pipelines.bundle.gc import clean_store

    with Bars() as bars:
        cleaned = clean_store(settings, unused_days=days, dry_run=dry_run, progress=bars.show)
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in cleaned], indent=1))
        return
    table = Table("", "kept", "damaged", "unused", "MB", box=None, padding=(0, 2))
    for each in cleaned:
        counts = (f"{each.kept:,}", f"{each.damaged:,}", f"{each.unused:,}", f"{each.freed_bytes / 1e6:.1f}")
        table.add_row(each.what, *counts)
    answer = Console()
    answer.print(table, highlight=False)
    freed = sum(each.freed_bytes for each in cleaned) / 1e6
    answer.print(f"{'would free' if dry_run else 'freed'} {freed:.1f} MB of {settings.paths.store}", highlight=False)
