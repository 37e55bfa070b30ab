"""The end of a training program: its exit code, and its error as people read it."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from codequarry.schemas.errors import CodequarryError


def run_program(command: Callable[..., None], name: str) -> None:
    """Run a command of the command line, and print an expected error in two lines.

    Args:
        command: The command.
        name: How it is called.

    Raises:
        SystemExit: The end of the program, with its exit code.
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(command)
    try:
        app(prog_name=name)
    except CodequarryError as error:
        typer.echo(f"error: {error.message}\ntry: {error.suggestion}", err=True)
        sys.exit(error.exit_code)
