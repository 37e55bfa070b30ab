"""``codequarry``: the command line. A command loads what it needs when it runs, so that readers need no pipeline."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Annotated

import typer

from codequarry.pipelines.cli import index, open_place
from codequarry.pipelines.cli.beside.indexing_beside import indexing_beside
from codequarry.pipelines.cli.command_groups import CommandGroups
from codequarry.pipelines.cli.evaluation import diff, evaluate, gates, models
from codequarry.pipelines.cli.first_index import index_first, repository_to_serve
from codequarry.pipelines.cli.fleet.commands import fleet_app
from codequarry.pipelines.cli.pager import PAGED, paged_output
from codequarry.pipelines.cli.upkeep import doctor, setup
from codequarry.schemas.errors import (
    CodequarryError,
    MissingExtraError,
    NoBundleError,
    ResourcesError,
    UnavailableError,
)
from codequarry.schemas.resources import collect_seldom, raise_if_exhausted
from codequarry.serving.cli import clients, route, serve, settings, sql, usage, versions
from codequarry.serving.cli.command_words import for_command_line
from codequarry.serving.cli.finding import browse, grep, relations, search, symbols
from codequarry.serving.cli.install import command as install
from codequarry.serving.cli.options import Lent
from codequarry.serving.cli.terminal import for_terminal

_WIDEST_HELP = 120
"""Columns that help takes at most, of those the terminal has."""

_COMMANDS = (
    diff, evaluate, index, models, gates,
    search, grep, browse, sql, symbols, relations, open_place,
    serve, route, install, clients, versions, doctor, setup, settings, usage,
)  # fmt: skip
"""Modules of commands, in the order of ``codequarry --help``."""


def build_app() -> typer.Typer:
    """Build the command line."""
    app = typer.Typer(
        name="codequarry",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        cls=CommandGroups,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _WIDEST_HELP},
    )
    app.callback()(_options)
    for module in _COMMANDS:
        module.register(app)
    app.add_typer(fleet_app, name="fleet")
    return app


def _options(
    context: typer.Context,
    version: Annotated[  # read by its callback, before any command
        bool,
        typer.Option(
            "--version", callback=lambda asked: _print_version() if asked else None, is_eager=True,
            help="Print the version of the program.",
        ),
    ] = False,
    no_pager: Annotated[
        bool, typer.Option("--no-pager", help="Print answers longer than the screen at once, without $PAGER or less.")
    ] = False,
) -> None:  # fmt: skip
    """Search your code from the command line or from an AI agent.

    Start with: codequarry index . && codequarry search 'where is the config loaded'
    """
    if context.invoked_subcommand in PAGED and not no_pager:
        context.with_resource(paged_output())


def _print_version() -> None:
    """Print the program's version, and the bundle format and Python that it runs with.

    Raises:
        typer.Exit: Always, as nothing else is asked for.
    """
    from importlib.metadata import version

    from codequarry.schemas.bundle.manifest import FORMAT_VERSION

    python = ".".join(map(str, sys.version_info[:3]))
    typer.echo(f"codequarry {version('codequarry')} (bundle format {FORMAT_VERSION}, Python {python})")
    raise typer.Exit


def _watch_beside(root: Path | None, settings_file: Path | None) -> AbstractContextManager[None]:
    """Watch the repositories beside ``codequarry serve --watch``, whose layer starts no process."""
    from codequarry.pipelines.cli.beside.watching_beside import watching_beside

    return watching_beside(root, settings_file)


def _follow_beside(url: str, share: str, root: Path | None, settings_file: Path | None) -> AbstractContextManager[Path]:
    """Follow a fleet beside ``codequarry serve --fleet URL``, whose layer starts no process."""
    from codequarry.pipelines.cli.beside.following_beside import following_beside

    return following_beside(url, share, root, settings_file)


class _WithoutPandas(MetaPathFinder):
    """Finder that hides pandas: Arrow would load it where it is installed, and nothing that indexes uses it.

    Loading it takes a seventh of a commit's CPU time.
    """

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Raise ModuleNotFoundError for pandas; leave every other module to the next finder."""
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not used here", name=fullname)


def run() -> None:
    """Run `main` as the entry point of the console script, and end without taking every module apart.

    That is a twentieth of a commit's CPU time and a seventh of a search's, for memory that the system frees at once.
    What was registered for the end of the process is run, and what was printed is written.
    """
    code: object = 0
    if sys.argv[1:2] == ["index"]:
        sys.meta_path.insert(0, _WithoutPandas())
    try:
        main()
    except SystemExit as done:
        code = done.code
    if not isinstance(code, int | None):
        sys.exit(code)
    atexit._run_exitfuncs()  # pyright: ignore[reportAttributeAccessIssue] # as forked children of multiprocessing do
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # nobody reads any more, or the disk is full
            code = code or UnavailableError.exit_code
    os._exit(code or 0)


def main() -> None:
    """Run one command, which ends by raising SystemExit."""
    # Threads of BLAS that wait for work spin; by default long enough to double the CPU time of importing NumPy.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")
    # Arrow's own allocator takes 65 MB more for a commit, and a tenth of a CPU-second to get them from the system.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    collect_seldom()
    try:
        _run_command()
    except CodequarryError as error:
        _explain(error)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", "codequarry"):
            raise
        explained = MissingExtraError(
            f"this needs {missing}, which is not installed",
            suggestion="run: pip install codequarry (this installation has been made without its dependencies)",
        )
        _explain(explained)
        sys.exit(explained.exit_code)
    except OSError as error:
        # A full disk behind a redirection, a folder that may not be read: the caller's to mend, so no traceback.
        try:
            raise_if_exhausted(error, "the command cannot go on")
        except ResourcesError as exhausted:
            _explain(exhausted)
            sys.exit(exhausted.exit_code)
        found = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
        _explain(UnavailableError(found, suggestion="check that the path is there, readable, and has space left"))
        sys.exit(UnavailableError.exit_code)


def _run_command() -> None:
    """Run the command line's command; one that asks about a repository without an index makes that first.

    A server starts at once, and its index is made beside it.
    """
    lent = Lent(
        commits_between=_commits_between,
        watching=_watch_beside,
        following=_follow_beside,
        remember_results=open_place.remember_results,
    )
    try:
        build_app()(obj=lent)
    except NoBundleError:
        if (folder := repository_to_serve(sys.argv[1:])) is not None:
            os.chdir(folder)
            with indexing_beside(folder) as first:
                build_app()(obj=replace(lent, first=first))
        if not index_first(sys.argv[1:]):
            raise
        build_app()(obj=lent)


def _commits_between(folder: Path, before: str, after: str) -> tuple[int, int] | None:
    """Count commits by git for `Lent`, whose layer starts no process."""
    from codequarry.pipelines.git.history import count_between

    return count_between(folder, before, after)


def _explain(error: CodequarryError) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=not sys.stderr.isatty(), highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), for_terminal(for_command_line(error.message))))
    if error.suggestion:
        console.print(Text.assemble(("try: ", "bold"), for_terminal(for_command_line(error.suggestion))))
