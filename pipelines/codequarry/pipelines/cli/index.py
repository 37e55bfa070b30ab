"""The commands of this layer, and ``codequarry index``: the pipeline from the command line."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codequarry.pipelines.cli.bundle import prune, rollback
from codequarry.pipelines.cli.census import census
from codequarry.pipelines.cli.evaluation.tune import tune_app
from codequarry.pipelines.cli.index_refs import (
    print_refs,
    publish_refs,
    publish_work_tree,
    without_further,
    work_tree_ref,
)
from codequarry.pipelines.cli.moving.archive import export, import_archive
from codequarry.pipelines.cli.moving.remote import follow, pull, push
from codequarry.pipelines.cli.progress import Bars, console
from codequarry.pipelines.cli.repositories import (
    RepositoriesArgument,
    SettingsOption,
    over,
    with_indexes,
)
from codequarry.pipelines.cli.upkeep.store import store_app
from codequarry.pipelines.cli.watch.command import watch
from codequarry.pipelines.gates.accept import checked_reason
from codequarry.pipelines.sources.earlier import remember, selected
from codequarry.pipelines.store.processes import ending_groups
from codequarry.pipelines.store.workspace import Progress, silent
from codequarry.schemas.errors import UnavailableError
from codequarry.schemas.resources import return_freed_memory
from codequarry.schemas.settings.load import SETTINGS_FILE, Settings, load_settings
from codequarry.schemas.trust.state_folders import nearest_home
from codequarry.schemas.trust.state_home import is_cached
from codequarry.serving.cli.terminal import for_terminal

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
    app.command("push")(push)
    app.command("pull")(pull)
    app.command("follow")(follow)


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
    delta: Annotated[
        bool | None,
        typer.Option(
            "--delta/--full",
            help="Publish only the files that differ from the last complete version, over it, where they are few; or a "
            "complete version in any case.",
            show_default="[bundle] delta of the settings",
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print every count, cost and place of a secret at the end.")
    ] = False,
    settings_file: SettingsOption = None,
) -> None:
    """Index repositories and publish them as one new version.

    Repositories that the published version holds stay when others are given: they are read again from where they were,
    and the summary says what became of each. --only drops them. Without any given, the list of the settings file is
    all that the version holds. Below a folder that has settings or an index, that folder is meant.
    A repository may be given at several refs: the first one is served, and each further one on request, from what
    differs. In a linked work tree of an indexed repository, its files are indexed so as well, and nothing else is.
    Nothing readers see changes until every check has passed; unchanged chunks are never embedded twice, and an
    unchanged repository costs only its census.

    Examples:

      codequarry index .

      codequarry index ~/src/app lib=~/src/shared-library

      codequarry index https://example.org/team/app#v1.0

      codequarry index ~/src/app#main ~/src/app#feature

      codequarry index ~/src/app --only

      codequarry index . --scip index.scip

      codequarry index . --adapt

      codequarry index . --delta

      codequarry index . --accept-regression "the examples moved to a repository of their own"
    """
    return_freed_memory()
    accept = checked_reason(accept_regression)
    # Without a place, what is indexed around the current folder is indexed again.
    around = not (repositories or root or settings_file)
    if around and (tree := work_tree_ref(Path.cwd())) is not None:
        print_refs(publish_work_tree(tree))
        return
    own = load_settings(settings_file, bundle_root=root, look="above" if around else "here")
    listed = own.sources.repositories
    if around and not listed:
        repositories = [os.path.relpath(nearest_home(Path.cwd(), SETTINGS_FILE))]
    asked, further = without_further(over(own, repositories)) if repositories else (over(own, []), ())
    selection = selected(
        with_indexes(asked, scip or []),
        listed,
        whole=bool(listed) and not repositories,
        only=only,
    )
    settings = selection.settings
    if adapt is not None:
        settings = settings.model_copy(update={"embedding": settings.embedding.model_copy(update={"adapt": adapt})})
    tries_delta = (settings.bundle.delta if delta is None else delta) and not force
    report = publish(settings, force=force, accept=accept, delta=tries_delta, whole=delta is False)
    from codequarry.pipelines.cli.summary import print_summary

    refs = publish_refs(settings, further, only=only)
    print_summary(report, selection.fates, settings.paths.work, verbose=verbose)
    print_refs(refs)


def publish(
    settings: Settings,
    *,
    force: bool = False,
    accept: str = "",
    delta: bool = False,
    whole: bool = False,
    progress: Progress | None = None,
) -> IndexReport:
    """Index the repositories of the settings, and remember their places.

    Args:
        settings: Settings of the run.
        force: Build a version although nothing changed.
        accept: Reason for publishing though checks fail that compare with CURRENT.
        delta: Publish a delta version where that can be.
        whole: Build a complete version also when CURRENT is a delta version with the same sources.
        progress: Told of the work done; by default, progress bars show it.

    Returns:
        What was done.

    Raises:
        CodequarryError: As `index_repositories` does.
    """
    return_freed_memory()
    from codequarry.pipelines.run import index_repositories
    from codequarry.pipelines.stack.build import NotStacked, index_changes

    if is_cached(settings.bundle.root):
        note = f"note: the index is kept in {settings.bundle.root.parent}, and nothing is written beside the code"
        console.print(for_terminal(note), highlight=False, soft_wrap=not console.is_terminal, markup=False)
    with ending_groups(), nullcontext() if progress else Bars() as bars:
        show = progress or (bars.show if bars else silent)
        tried = index_changes(settings, show, accept=accept) if delta else None
        if tried is None or isinstance(tried, NotStacked):
            report = index_repositories(settings, show, force=force, accept=accept, whole=whole)
            if tried is not None:
                report = replace(report, warnings=(*report.warnings, f"no delta version: {tried.reason}"))
        else:
            report = tried
    _remember(settings)
    return report


def _remember(settings: Settings) -> None:
    try:
        remember(settings)
    except UnavailableError as error:  # the version is published; what could not be kept is reported when it is needed
        console.print(f"note: {error.message}; the next run cannot keep these repositories by itself", highlight=False)
