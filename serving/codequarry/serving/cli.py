"""``codequarry``: the command line. Further commands come from other layers through entry points."""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points

import typer

from codequarry.schemas.errors import CodequarryError, UnavailableError
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


def main() -> None:
    """Entry point of the console script."""
    # Threads of BLAS that wait for work spin; by default long enough to double the CPU time of importing NumPy.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")
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
    main()
