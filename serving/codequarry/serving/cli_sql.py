"""``codequarry sql``: one query over the catalog of a version."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.settings import load_settings
from codequarry.serving.cli_lists import print_table
from codequarry.serving.cli_options import JsonOption, RootOption, SettingsOption
from codequarry.serving.cli_query import for_terminal

if TYPE_CHECKING:
    import duckdb

_ROWS = 100
_CELL_CHARS = 200
_BATCH = 1_000


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
    do not.

    Examples:

      codequarry sql "SELECT lang, count(*), sum(lines) FROM files WHERE skip_reason = '' GROUP BY lang"

      codequarry sql "SELECT path, fan_in FROM modules ORDER BY fan_in DESC LIMIT 10" --csv
    """
    if as_json and as_csv:
        raise InvalidArgumentError("found --json and --csv, expected one of them", suggestion="leave one out")
    import duckdb

    from codequarry.serving.catalog_session import open_catalog

    settings = load_settings(settings_file, bundle_root=root)
    pools = settings.telemetry.pool_folder
    with open_catalog(settings.bundle.root, version=version, pools=pools) as session:
        if not query.strip():
            head, rows = ("table", "columns", "rows are"), _tables(session.connection)
        else:
            _confine(session.connection, [session.paths.path, pools])
            try:
                found = session.connection.execute(_only_query(session.connection, query))
                head = tuple(column[0] for column in found.description or ())
                rows = _fetched(found)
                rows = _chained(next(rows, None), rows)
            except duckdb.Error as error:
                raise _refused(error) from None
        _print(head, rows, as_json=as_json, as_csv=as_csv)


def _only_query(connection: duckdb.DuckDBPyConnection, query: str) -> duckdb.Statement:
    """The statement, if it is one and only reads. Raises InvalidArgumentError: it is not."""
    import duckdb

    statements = connection.extract_statements(query)
    if len(statements) != 1:
        raise InvalidArgumentError(
            f"found {len(statements)} statements, expected one", suggestion="ask them one by one"
        )
    if statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        kind = statements[0].type.name
        raise InvalidArgumentError(
            f"found a statement of kind {kind}, expected a query",
            suggestion="write a SELECT; in Python, codequarry.serving.open_catalog() has tables of your own too",
        )
    return statements[0]


def _confine(connection: duckdb.DuckDBPyConnection, folders: list[Path]) -> None:
    """Leave a query no other files than those of the catalog."""
    listed = ", ".join("'{}'".format(str(folder).replace("'", "''")) for folder in folders)
    connection.execute(f"SET allowed_directories = [{listed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _tables(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    from codequarry.schemas.catalog_columns import GROUPS

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


def _chained(first: tuple[Any, ...] | None, rest: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    if first is not None:
        yield first
        yield from rest


def _refused(error: duckdb.Error) -> InvalidArgumentError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [*lines[:1], *(line for line in lines[1:] if line.startswith(("Candidate", "Did you mean")))]
    return InvalidArgumentError(
        for_terminal("; ".join(said) or type(error).__name__),
        suggestion="`codequarry sql` lists the tables, `codequarry sql 'DESCRIBE chunks'` the columns of one",
    )


def _print(head: tuple[str, ...], rows: Iterator[tuple[Any, ...]], *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        listed = [dict(zip(head, row, strict=True)) for row in rows]
        typer.echo(json.dumps(listed, ensure_ascii=False, indent=2, default=str))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(rows)
    else:
        shown = list(islice(rows, _ROWS))
        print_table(head, (tuple(map(_cell, row)) for row in shown), whole=1)
        if next(rows, None) is not None:
            typer.echo(f"the first {_ROWS} rows; --json and --csv print all", err=True)


def _cell(value: Any) -> str:
    text = "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
    line = " ".join(for_terminal(text).split())
    return line if len(line) <= _CELL_CHARS else f"{line[:_CELL_CHARS]}…"
