"""Command ``codequarry sql``: one query over the catalog of a version."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings.load import load_settings
from codequarry.serving.cli.options import JsonOption, RootOption, SettingsOption
from codequarry.serving.cli.terminal import echo_json, escaped, for_terminal, print_rows, print_table

if TYPE_CHECKING:
    import duckdb

_ROWS = 100
_CELL_CHARS = 200
_BATCH = 1_000
_RAISED = re.compile(r"[A-Za-z]+Error: ")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sql")(ask_catalog)


def ask_catalog(
    query: Annotated[
        str, typer.Argument(help="One SELECT of DuckDB's SQL.", show_default="every table and what a row of it is")
    ] = "",
    version: Annotated[
        str, typer.Option(help="A version of `codequarry versions`.", show_default="the current one")
    ] = "",
    as_json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header line.")] = False,
    root: RootOption = None,
    settings_file: SettingsOption = None,
) -> None:
    """Ask the catalog of a version in SQL: files, chunks, definitions, references, versions, candidates of searches.

    Nothing can be written, and no other file be read. Without a query it lists the tables; `DESCRIBE chunks` has the
    columns of one, and docs/CATALOG.md what each means. The table that is printed ends after 100 rows; --json and --csv
    do not. Rows that are wider than the terminal are printed as lines of `column: value`.

    Examples:

      codequarry sql "SELECT lang, count(*), sum(lines) FROM files WHERE skip_reason = '' GROUP BY lang"

      codequarry sql "SELECT path, fan_in FROM modules ORDER BY fan_in DESC LIMIT 10" --csv
    """
    if as_json and as_csv:
        raise InvalidArgumentError("found --json and --csv, expected one of them", suggestion="leave one out")
    import duckdb

    from codequarry.serving.sql.session import open_catalog

    settings = load_settings(settings_file, bundle_root=root, look="up")
    pools = settings.telemetry.pool_folder
    with open_catalog(settings.bundle.root, version=version, pools=pools) as session:
        if not query.strip():
            head, rows = ("table", "columns", "rows are"), _tables(session.connection)
        else:
            _lock(session.connection)
            try:
                found = session.connection.execute(_only_query(session.connection, query))
                head = tuple(column[0] for column in found.description or ())
                rows = _fetched(found)
                first = next(rows, None)  # an error shows here, before anything is printed
                rows = chain([first] if first is not None else [], rows)
            except duckdb.Error as error:
                raise _describe_error(error) from None
        _print(head, rows, as_table=not query.strip(), as_json=as_json, as_csv=as_csv)


def _only_query(connection: duckdb.DuckDBPyConnection, query: str) -> duckdb.Statement:
    """Return the statement, if it is one query.

    This check is for the message: an EXPLAIN may hold any statement. The connection guarantees that nothing is written.

    Args:
        connection: Connection that parses the text.
        query: SQL text.

    Returns:
        The statement.

    Raises:
        InvalidArgumentError: The text is not exactly one query.
    """
    statements = connection.extract_statements(query)
    if len(statements) != 1:
        raise InvalidArgumentError(
            f"found {len(statements)} statements, expected one", suggestion="ask them one by one"
        )
    if (kind := _kind(statements[0])) not in ("SELECT", "EXPLAIN"):
        raise InvalidArgumentError(
            f"found a statement of kind {kind}, expected a query",
            suggestion="write a SELECT; in Python, codequarry.serving.open_catalog() has tables of your own too",
        )
    return statements[0]


def _kind(statement: duckdb.Statement) -> str:
    try:
        return statement.type.name
    except ValueError:  # DuckDB's Python does not know all of its own kinds
        return "UNKNOWN"


def _lock(connection: duckdb.DuckDBPyConnection) -> None:
    """Protect the connection from a query: files can only be read, and variables of this program cannot be read."""
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET lock_configuration = true")


def _tables(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    from codequarry.schemas.catalog.views import GROUPS

    found = connection.execute(
        "SELECT table_name, count(*) FROM information_schema.columns "
        "WHERE table_catalog = current_database() GROUP BY ALL"
    ).fetchall()
    columns: dict[str, int] = dict(found)
    for names in GROUPS.values():
        for name, meaning in names.items():
            if name in columns:
                yield name, columns[name], meaning


def _fetched(found: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while rows := found.fetchmany(_BATCH):
        yield from rows


def _describe_error(error: duckdb.Error) -> InvalidArgumentError:
    import duckdb

    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    hints = [line for line in lines[1:] if line.startswith(("Candidate", "Did you mean"))]
    # An error of the session's file system arrives as a traceback.
    raised = next((line for line in lines if _RAISED.match(line)), "")
    message = "; ".join([raised or lines[0], *hints]) if lines else type(error).__name__
    if isinstance(error, duckdb.PermissionException) or raised.startswith("PermissionError"):
        return InvalidArgumentError(
            "a query can only read the tables of the catalog, and write no file",
            suggestion="to write rows into a file, redirect `codequarry sql … --csv`",
        )
    return InvalidArgumentError(
        for_terminal(message),
        suggestion="`codequarry sql` lists the tables, `codequarry sql 'DESCRIBE chunks'` the columns of one",
    )


def _print(
    head: tuple[str, ...], rows: Iterator[tuple[Any, ...]], *, as_table: bool, as_json: bool, as_csv: bool
) -> None:
    if as_json:
        listed = [dict(zip(head, row, strict=True)) for row in rows]
        echo_json(listed)
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows(map(_format_row, chain([head], rows)) if sys.stdout.isatty() else chain([head], rows))
    else:
        names, shown = tuple(map(_cell, head)), [tuple(map(_cell, row)) for row in islice(rows, _ROWS)]
        (print_table if as_table else print_rows)(names, shown, whole=1)
        if next(rows, None) is not None:
            typer.echo(f"the first {_ROWS} rows; --json and --csv print all", err=True)


def _format_row(row: tuple[Any, ...]) -> list[str]:
    return ["" if value is None else escaped(str(value)) for value in row]


def _cell(value: Any) -> str:
    text = "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
    line = " ".join(for_terminal(text).split())
    return line if len(line) <= _CELL_CHARS else f"{line[:_CELL_CHARS]}…"
