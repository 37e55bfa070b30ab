"""``codequarry census``: the files that would be indexed, and why others would not, before any work."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from codequarry.pipelines.cli.progress import Bars
from codequarry.pipelines.cli.repositories import RepositoriesArgument, SettingsOption, over, source_state
from codequarry.pipelines.store.processes import ending_groups
from codequarry.schemas.settings.load import load_settings
from codequarry.schemas.wording import counted

if TYPE_CHECKING:
    from codequarry.pipelines.sources.census_report import CensusReport


def census(
    repositories: RepositoriesArgument = None,
    list_all: Annotated[bool, typer.Option("--all", help="List every file with its fate.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    settings_file: SettingsOption = None,
) -> None:
    """Print what would be indexed and why not, before any work.

    Counts are those of `codequarry index` for the same input. Nothing is written but the clone of a URL.

    Examples:

      codequarry census .

      codequarry census https://example.org/team/app#v1.0 --all
    """
    settings = over(load_settings(settings_file), repositories or [])
    from codequarry.pipelines.sources.census_report import census_repositories

    with ending_groups(), Bars() as bars:
        reports = census_repositories(settings, bars.show)
    if as_json:
        typer.echo(json.dumps({"repositories": [_json(report, list_all) for report in reports]}, indent=1))
        return
    console = Console(soft_wrap=not sys.stdout.isatty(), highlight=False, markup=False)
    for report in reports:
        _print(console, report, list_all)


def _json(report: CensusReport, list_all: bool) -> dict[str, object]:
    values = asdict(report)
    if not list_all:
        del values["listed"]
    return values


def _print(console: Console, report: CensusReport, list_all: bool) -> None:
    state = source_state(report.commit, dirty=report.dirty, unborn=report.unborn)
    console.print(Text.assemble((report.name, "bold"), f": {plain(report.place)}, {state}"))
    languages = _table("language", "files", "lines", "bytes")
    for lang, count in report.languages.items():
        languages.add_row(lang, f"{count.files:,}", f"{count.lines:,}", f"{count.bytes:,}")
    languages.add_row("all", f"{report.files:,}", f"{report.lines:,}", f"{report.bytes:,}")
    console.print(languages)
    classes = _table("path class", "files")
    for name, files in report.classes.items():
        classes.add_row(name, f"{files:,}")
    console.print(classes)
    if report.skipped:
        skipped = _table("skipped", "files")
        skipped.add_column("for example", overflow="fold")
        for reason, count in report.skipped.items():
            skipped.add_row(reason, f"{count.files:,}", ", ".join(map(plain, count.examples)))
        skipped.add_row("all", f"{sum(count.files for count in report.skipped.values()):,}", "")
        console.print(skipped)
    if list_all:
        for file in report.listed:
            fate = f"skipped: {file.skip_reason}" if file.skip_reason else f"{file.lang}, {file.path_class}"
            console.print(f"{plain(file.path)}  {fate}  {counted(file.bytes, 'byte')}")
    console.print()


def _table(first: str, *numbers: str) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="bold")
    table.add_column(first)
    for title in numbers:
        table.add_column(title, justify="right")
    return table


def plain(text: str) -> str:
    """Return a path as one line of harmless characters: a file name may hold terminal commands."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode() for char in text
    )
