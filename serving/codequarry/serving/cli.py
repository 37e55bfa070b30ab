"""``codequarry``: the command line. Further commands come from other layers through entry points."""

from __future__ import annotations

import atexit
import os
import sys
from importlib.metadata import entry_points

import typer

from codequarry.schemas.errors import CodequarryError, UnavailableError
from codequarry.schemas.garbage import collect_seldom
from codequarry.serving import (
    cli_admin,
    cli_clients,
    cli_doctor,
    cli_grep,
    cli_lists,
    cli_query,
    cli_sql,
    cli_symbols,
    cli_versions,
)
from codequarry.serving.cli_query import for_terminal

COMMANDS_GROUP = "codequarry.commands"


def build_app() -> typer.Typer:
    """The command line: our own commands and those of the entry points."""
    app = typer.Typer(
        name="codequarry",
        help="Search your code from the command line or from an AI agent.\n\n"
        "Start with: codequarry index . && codequarry search 'where is the config loaded'",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for plugin in sorted(entry_points(group=COMMANDS_GROUP), key=lambda entry: entry.name):
        plugin.load()(app)
    cli_query.register(app)
    cli_grep.register(app)
    cli_sql.register(app)
    cli_symbols.register(app)
    cli_admin.register(app)
    cli_clients.register(app)
    cli_versions.register(app)
    cli_doctor.register(app)
    cli_lists.register(app)
    return app


def run() -> None:
    """Entry point of the console script: `main`, and then an end without taking every module apart.

    That is a twentieth of a commit's CPU time and a seventh of a search's, for memory that the system frees at once.
    What was registered for the end of the process is run, and what was printed is written.
    """
    code: object = 0
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
            code = code or 1
    os._exit(code or 0)


def main() -> None:
    """Run one command. Raises SystemExit."""
    # Threads of BLAS that wait for work spin; by default long enough to double the CPU time of importing NumPy.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")
    # Arrow's own allocator takes 65 MB more for a commit, and a tenth of a CPU-second to get them from the system.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    collect_seldom()
    try:
        build_app()()
    except CodequarryError as error:
        _explain(error)
        sys.exit(error.exit_code)
    except OSError as error:
        # A full disk behind a redirection, a folder that may not be read: the caller's to mend, so no traceback.
        found = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
        _explain(UnavailableError(found, suggestion="check that the path is there, readable, and has space left"))
        sys.exit(UnavailableError.exit_code)


def _explain(error: CodequarryError) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), for_terminal(error.message)))
    if error.suggestion:
        console.print(Text.assemble(("try: ", "bold"), error.suggestion))


if __name__ == "__main__":
    run()
