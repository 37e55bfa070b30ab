"""``codequarry store``: results that runs keep so that nothing is computed twice."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from codequarry.pipelines.cli.progress import Bars
from codequarry.pipelines.cli.repositories import SettingsOption
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.settings.load import load_settings

store_app = typer.Typer(
    help="What runs keep so that nothing is computed twice: syntax, secrets, vectors, SCIP indexes, clones, encoders.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


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
    settings = load_settings(settings_file)
    try:
        from codequarry.pipelines.bundle.gc import clean_store
    except ModuleNotFoundError as error:
        raise missing_extra("codequarry store gc", "build", missing=error.name) from None
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
