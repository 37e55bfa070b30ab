"""``codequarry index``: the pipeline from the command line."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.settings import RepositorySettings, Settings, load_settings

_console = Console(stderr=True)


def register(app: typer.Typer) -> None:
    """Add this layer's commands to the codequarry command line."""
    app.command("index")(index)


def index(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]PATH...",
            help="Repositories or directories. Without any: those of the settings file, else the current folder.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Rebuild and publish even when nothing changed since CURRENT.")
    ] = False,
    root: Annotated[
        Path | None, typer.Option(help="Bundle root to publish to.", show_default="[bundle] root of the settings")
    ] = None,
    settings_file: Annotated[
        Path | None, typer.Option("--settings", help="Settings file.", show_default="./dagster_project.toml if there")
    ] = None,
) -> None:
    """Index repositories and publish them as one new version.

    The version holds exactly the repositories given. Nothing readers see changes until every check has passed;
    unchanged chunks are never embedded twice, and an unchanged repository costs only its census.

    Examples:

      codequarry index .

      codequarry index ~/src/app lib=~/src/shared-library
    """
    settings = _over(load_settings(settings_file, bundle_root=root), paths or [])
    try:
        from codequarry.pipelines.build import index_repositories
    except ModuleNotFoundError as error:
        raise missing_extra("codequarry index", "build", missing=error.name) from None

    with _Bars() as bars:
        report = index_repositories(settings, bars.show, force=force)
    skipped: Counter[str] = Counter()
    for snapshot in report.snapshots:
        skipped.update(snapshot.skipped)
        state = f"commit {snapshot.commit[:12]}" if snapshot.commit else "a directory without git"
        changed = ", with uncommitted changes" if snapshot.commit and snapshot.dirty else ""
        _console.print(f"[bold]{snapshot.name}[/bold]: {state}{changed}", highlight=False)
    table = Table(show_header=False, box=None, padding=(0, 2))
    counts = report.manifest.counts
    table.add_row("files indexed", f"{counts.files:,}")
    table.add_row("files skipped", f"{counts.skipped_files:,}  {_reasons(skipped)}")
    table.add_row("chunks", f"{counts.chunks:,}")
    if report.embeddings:
        embedded = sum(each.embedded for each in report.embeddings)
        table.add_row("vectors", f"{embedded:,} embedded, {sum(each.reused for each in report.embeddings):,} reused")
    if report.chunks:
        broken = sum(each.files_with_syntax_errors for each in report.chunks)
        parsed = sum(each.parsed_files for each in report.chunks)
        definitions = sum(each.definitions for each in report.chunks)
        table.add_row("syntax", f"{parsed:,} files parsed, {broken:,} with errors, {definitions:,} definitions")
    table.add_row("seconds", "  ".join(f"{stage} {spent:.1f}" for stage, spent in report.seconds.items()))
    table.add_row("bundle size", f"{sum(entry.size_bytes for entry in report.manifest.files) / 1e6:.1f} MB")
    _console.print(table, highlight=False)
    verb = "unchanged: CURRENT already is" if report.unchanged else "published"
    _console.print(f"[green]{verb}[/green] {report.manifest.version}", highlight=False)
    typer.echo(report.path)


def _over(settings: Settings, paths: list[str]) -> Settings:
    """The settings with the repositories of the command line, which win over those of the file."""
    if not paths and settings.sources.repositories:
        return settings
    repositories = tuple(_repository(path) for path in paths or ["."])
    return settings.model_copy(update={"sources": settings.sources.model_copy(update={"repositories": repositories})})


def _repository(text: str) -> RepositorySettings:
    name, separator, path = text.partition("=")
    if not separator or os.path.exists(text):
        name, path = "", text
    if not path:
        raise InvalidArgumentError(f"found {text!r}, expected [NAME=]PATH", suggestion="give a path, e.g. '.'")
    try:
        return RepositorySettings(name=name, path=Path(path).expanduser())
    except ValidationError:
        raise InvalidArgumentError(
            f"{name!r} cannot name a repository; expected letters, digits, '.', '_' and '-', a letter or digit first",
            suggestion=f"write it like my-name={path}",
        ) from None
    except RuntimeError:
        raise InvalidArgumentError(f"{path}: no such home folder", suggestion="give the path in full") from None


def _reasons(skipped: Counter[str]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in skipped.most_common())


class _Bars:
    """Progress bars, one per piece of work; on a plain stream rich prints nothing but the final state."""

    def __init__(self) -> None:
        self._bars = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            console=_console,
        )  # fmt: skip
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> _Bars:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def show(self, what: str, done: int, total: int) -> None:
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=total)
        self._bars.update(self._tasks[what], completed=done, total=total)
