"""The commands of this layer, and ``codequarry index``: the pipeline from the command line."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codequarry.pipelines.cli.archive import export, import_archive
from codequarry.pipelines.cli.bundle import prune, rollback
from codequarry.pipelines.cli.census import census
from codequarry.pipelines.cli.evaluation.tune import tune_app
from codequarry.pipelines.cli.progress import Bars, console
from codequarry.pipelines.cli.repositories import (
    RepositoriesArgument,
    SettingsOption,
    over,
    with_indexes,
)
from codequarry.pipelines.cli.store import store_app
from codequarry.pipelines.cli.watch.command import watch
from codequarry.pipelines.gates.accept import checked_reason
from codequarry.pipelines.sources.earlier import remember, selected
from codequarry.pipelines.store.processes import ending_groups
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.install_hints import missing_extra
from codequarry.schemas.resources import return_freed_memory
from codequarry.schemas.settings.load import Settings, load_settings

if TYPE_CHECKING:
    from codequarry.pipelines.run import IndexReport


def register(app: typer.Typer) -> None:
    """Add this layer's commands to the codequarry command line."""
    app.command("census")(census)
    app.command("index")(index)
    app.command("watch")(watch)
    app.command("rollback")(rollback)
    app.command("prune")(prune)
    app.add_typer(store_app, name="store")
    app.add_typer(tune_app, name="tune")
    app.command("export")(export)
    app.command("import")(import_archive)


def index(
    repositories: RepositoriesArgument = None,
    force: Annotated[
        bool, typer.Option("--force", help="Rebuild and publish even when nothing changed since CURRENT.")
    ] = False,
    root: Annotated[
        Path | None, typer.Option(help="Bundle root to publish to.", show_default="[bundle] root of the settings")
    ] = None,
    scip: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]FILE", help="A SCIP index of a repository that was made elsewhere; repeatable."),
    ] = None,
    adapt: Annotated[
        bool | None,
        typer.Option(
            "--adapt/--no-adapt",
            help="Fit the encoder to the repositories first, and take it where it is better beyond doubt.",
            show_default="[embedding] adapt of the settings",
        ),
    ] = None,
    accept_regression: Annotated[
        str | None,
        typer.Option(
            metavar="REASON",
            help="Publish though checks fail that compare with CURRENT, and keep the reason in the manifest.",
        ),
    ] = None,
    only: Annotated[
        bool,
        typer.Option("--only", help="Publish the repositories given alone; others of the published version go."),
    ] = False,
    settings_file: SettingsOption = None,
) -> None:
    """Index repositories and publish them as one new version.

    Repositories that the published version holds stay when others are given: they are read again from where they were,
    and the summary says what became of each. --only drops them. Without any given, the list of the settings file is
    all that the version holds. Nothing readers see changes until every check has passed;
    unchanged chunks are never embedded twice, and an unchanged repository costs only its census.

    Examples:

      codequarry index .

      codequarry index ~/src/app lib=~/src/shared-library

      codequarry index https://example.org/team/app#v1.0

      codequarry index ~/src/app --only

      codequarry index . --scip index.scip

      codequarry index . --adapt

      codequarry index . --accept-regression "the examples moved to a repository of their own"
    """
    require_build_extra()
    accept = checked_reason(accept_regression)
    own = load_settings(settings_file, bundle_root=root)
    listed = own.sources.repositories
    selection = selected(
        with_indexes(over(own, repositories or []), scip or []),
        listed,
        whole=bool(listed) and not repositories,
        only=only,
    )
    settings = selection.settings
    if adapt is not None:
        settings = settings.model_copy(update={"embedding": settings.embedding.model_copy(update={"adapt": adapt})})
    report = publish(settings, force=force, accept=accept)
    from codequarry.pipelines.cli.summary import print_summary

    print_summary(report, selection.fates, settings.paths.work)


def require_build_extra() -> None:
    """Load the modules that index, so that a machine without them hears of that before anything else.

    Raises:
        MissingExtraError: A library of the extra ``build`` is not installed.
    """
    return_freed_memory()
    try:
        import_module("codequarry.pipelines.run")
    except ModuleNotFoundError as error:
        raise missing_extra("codequarry index", "build", missing=error.name) from None


def publish(settings: Settings, *, force: bool = False, accept: str = "") -> IndexReport:
    """Index the repositories of the settings with progress bars, and remember their places.

    Args:
        settings: Settings of the run.
        force: Build a version although nothing changed.
        accept: Reason for publishing though checks fail that compare with CURRENT.

    Returns:
        What was done.

    Raises:
        CodequarryError: As `index_repositories` does.
    """
    require_build_extra()
    from codequarry.pipelines.run import index_repositories

    with ending_groups(), Bars() as bars:
        report = index_repositories(settings, bars.show, force=force, accept=accept)
    _remember(settings)
    return report


def _remember(settings: Settings) -> None:
    try:
        remember(settings)
    except UnavailableError as error:  # the version is published; what could not be kept is reported when it is needed
        console.print(f"note: {error.message}; the next run cannot keep these repositories by itself", highlight=False)
