"""Output of commands: tables, JSON, log lines, and untrusted text, whose escape sequences must not take effect.

Programs that read a pipe get every byte as it is.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import typer

_OUTSIDE_ASCII = re.compile(r"[^\x20-\x7e\n]")
_WIDEST = 10_000
"""Columns of a table that is never folded."""
_GAP = 2
"""Columns around each cell of a table."""
_RULE = 40
"""Columns of the line above a row."""


def for_terminal(text: str) -> str:
    """Remove control and invisible characters from indexed code.

    >>> for_terminal("a\\x1b[2Jb")
    'a[2Jb'
    """
    return "".join(character for character in text if character in "\n\t" or _is_visible(character))


def escaped(text: str) -> str:
    """Replace control and invisible characters by visible escapes.

    >>> print(escaped("a\\x1b[2Jb"), escaped("a\\u202eb"))
    a\\x1b[2Jb a\\u202eb
    """
    return "".join(
        character if character in "\n\t" or _is_visible(character) else repr(character)[1:-1] for character in text
    )


def say(text: str, *, err: bool = False) -> None:
    """Print a sentence: in lines of the terminal's width, or as one line into a pipe.

    Args:
        text: The sentence. Of untrusted parts, characters that a terminal obeys are left out.
        err: Print to standard error.
    """
    text = for_terminal(text)
    if (sys.stderr if err else sys.stdout).isatty():
        width = shutil.get_terminal_size().columns
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    typer.echo(text, err=err)


def echo_json(value: Any) -> None:
    """Print a value as JSON; on a terminal, invisible characters are escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    typer.echo(_OUTSIDE_ASCII.sub(_json_escape, text) if sys.stdout.isatty() else text)


def print_table(
    head: tuple[str, ...], rows: Iterable[tuple[str, ...]], *, whole: int, caption: str | None = None
) -> None:
    """Print a table.

    Args:
        head: Names of the columns.
        rows: Cells of each row.
        whole: Number of columns, from the left, that are never folded, so that names can be copied. When that is all of
            them, the table is as wide as it needs to be.
        caption: Text below the table.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, caption=caption, caption_justify="left")
    for place, name in enumerate(head):
        table.add_column(name, no_wrap=place < whole, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(highlight=False)
    if whole == len(head):
        needed = console.measure(table, options=console.options.update(max_width=_WIDEST)).maximum
        console.width = max(console.width, needed)
    console.print(table)


def print_rows(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, whole: int) -> None:
    """Print a table, or a line for each cell where the table would be wider than the terminal.

    Args:
        head: Names of the columns.
        rows: Cells of each row; each is one line.
        whole: Number of columns, from the left, that the table never folds.
    """
    from rich.cells import cell_len
    from rich.console import Console

    widths = [max(map(cell_len, column)) for column in zip(head, *rows, strict=True)]
    width = Console().width
    if not rows or sum(widths) + _GAP * len(widths) <= width:
        print_table(head, rows, whole=whole)
        return
    names = [name.ljust(max(map(len, head))) for name in head]
    for number, row in enumerate(rows, start=1):
        typer.echo(f"row {number} ".ljust(min(width, _RULE), "-"))
        for name, cell in zip(names, row, strict=True):
            typer.echo(f"{name}: {cell}".rstrip())


class OneLine(logging.Formatter):
    """Formatter of messages as single lines of printable text: parts of them come from clients and token claims."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line; a traceback follows it on lines of its own."""
        return printable(super().formatMessage(record))


def log_to_stderr() -> None:
    """Send warnings and errors of every library to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(levelname)s %(name)s: %(message)s"))
    # Only messages that need action: libraries report every start and every request.
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    # FAISS reports every instruction set its wheel was not built for.
    logging.getLogger("faiss").setLevel(logging.WARNING)


def take_over_fastmcp() -> None:
    """Send FastMCP's messages to the common log; its import gave them a level and handlers that break lines."""
    logger = logging.getLogger("fastmcp")
    logger.setLevel(logging.WARNING)
    logger.handlers.clear()
    logger.propagate = True


def printable(text: str) -> str:
    r"""Return the text with line breaks, control and invisible characters escaped.

    >>> print(printable("bob\nERROR all is lost\x1b[2J"))
    bob\nERROR all is lost\x1b[2J
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def _is_visible(character: str) -> bool:
    return character.isprintable() or character == " "


def _json_escape(match: re.Match[str]) -> str:
    """Escape a character that JSON leaves as it is: one outside of ASCII, or DEL."""
    character = match[0]
    if _is_visible(character):
        return character
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]
