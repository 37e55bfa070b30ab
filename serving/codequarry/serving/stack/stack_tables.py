"""The arrays of ``stack/`` as tables of DuckDB, and the views over both catalogs, for sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codequarry.schemas.catalog.stack_views import STACK_TABLES, StackNames, own_tables, stack_views
from codequarry.serving.stack.overlay import StackArrays

if TYPE_CHECKING:
    import duckdb


def attach_catalog(path: str, name: str) -> str:
    """Return the statement that attaches a catalog under a name."""
    quoted = path.replace("'", "''")
    return f"ATTACH '{quoted}' AS {name} (READ_ONLY)"


def put_stack_arrays(connection: duckdb.DuckDBPyConnection, stack: StackArrays, schema: str) -> None:
    """Make the tables of what a delta hides and links.

    Args:
        connection: Connection that gets them.
        stack: The stack.
        schema: Schema of the tables.
    """
    columns = (
        [stack.hidden],
        list(stack.names.T),
        list(stack.dead.T),
        list(stack.successors.T),
        [stack.lost],
        [stack.places[name] for name in stack.places.dtype.names or ()],
    )
    for (table, definition), values in zip(STACK_TABLES.items(), columns, strict=True):
        connection.execute(f"CREATE OR REPLACE TABLE {schema}.{table} ({definition})")
        if len(values[0]):
            rows = ", ".join(["unnest(?::INTEGER[])"] * len(values))
            connection.execute(f"INSERT INTO {schema}.{table} SELECT {rows}", [column.tolist() for column in values])


def put_stack_tables(connection: duckdb.DuckDBPyConnection, stack: StackArrays, names: StackNames) -> dict[str, str]:
    """Make the tables of what a delta adds and hides, and return the views over them and the base.

    Args:
        connection: Connection that gets them, with both catalogs attached.
        stack: The stack.
        names: Names and numbers of both versions.

    Returns:
        SQL of the views by name.
    """
    put_stack_arrays(connection, stack, names.schema)
    for name, sql in own_tables(names).items():
        connection.execute(f"CREATE OR REPLACE TABLE {names.schema}.own_{name} AS {sql}")
    return stack_views(names, stack.hidden.tolist(), dead=bool(len(stack.dead)))
