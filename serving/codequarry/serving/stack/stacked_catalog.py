"""Catalog of a delta version and its base: the tables that requests read, as views over the tables of both."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.catalog.stack_views import STACK_TABLES, StackNames, own_tables, stack_views
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.catalog.catalog import LOCKS, Catalog
from codequarry.serving.catalog.texts import MappedTexts
from codequarry.serving.stack.overlay import StackArrays
from codequarry.serving.stack.stacked_directory import StackedDirectory, stacked_directory
from codequarry.serving.stack.stacked_rows import StackedRows

if TYPE_CHECKING:
    import duckdb


class StackedCatalog(Catalog):
    """Catalog of a stack. Safe to share between threads."""

    stack: StackArrays

    @classmethod
    def open_stack(cls, base: BundlePaths, own: BundlePaths, stack: StackArrays) -> StackedCatalog:
        """Open the catalogs and texts of both versions as one.

        Args:
            base: Paths of the base.
            own: Paths of the delta version.
            stack: How the delta lies over the base.

        Returns:
            The open catalog.

        Raises:
            IntegrityError: DuckDB cannot open a catalog, or tables are missing.
        """
        import duckdb

        with ExitStack() as undo:
            upper = undo.enter_context(closing(MappedTexts.open(own)))
            texts, first_shard = upper.over(MappedTexts.open(base))
            undo.pop_all()  # the texts of both have the maps now
        connection = duckdb.connect(config={"threads": "1", "temp_directory": ""})
        try:
            for name, paths in (("base", base), ("own", own)):
                connection.execute(attach_catalog(str(paths.catalog), name))
            views = put_stack_tables(connection, stack, stack.numbers("base", "own", "main", first_shard))
            for name, sql in views.items():
                connection.execute(f"CREATE VIEW {name} AS {sql}")
            for setting, value in LOCKS.items():
                connection.execute(f"SET {setting} = {value}")
        except duckdb.Error as error:
            connection.close()
            texts.close()
            raise IntegrityError(
                f"the catalogs of {own.path.name} and its base cannot be opened ({type(error).__name__})",
                suggestion="do not serve this version; roll back, or index again",
            ) from error
        catalog = cls(connection, texts, StackedRows(stack, first_shard))
        catalog.stack = stack
        return catalog

    def directory(self) -> StackedDirectory:
        """Return the directory of both versions."""
        assert isinstance(self.index, StackedRows)
        return stacked_directory(self.stack, self.index)


def attach_catalog(path: str, name: str) -> str:
    """Return the statement that attaches a catalog under a name."""
    quoted = path.replace("'", "''")
    return f"ATTACH '{quoted}' AS {name} (READ_ONLY)"


def put_stack_tables(connection: duckdb.DuckDBPyConnection, stack: StackArrays, names: StackNames) -> dict[str, str]:
    """Make the tables of what a delta adds and hides, and return the views over them and the base.

    Args:
        connection: Connection that gets them, with both catalogs attached.
        stack: The stack.
        names: Names and numbers of both versions.

    Returns:
        SQL of the views by name.
    """
    schema = names.schema
    columns = (
        [stack.hidden],
        list(stack.names.T),
        list(stack.dead.T),
        [stack.places[name] for name in stack.places.dtype.names or ()],
    )
    for (table, definition), values in zip(STACK_TABLES.items(), columns, strict=True):
        connection.execute(f"CREATE OR REPLACE TABLE {schema}.{table} ({definition})")
        if len(values[0]):
            rows = ", ".join(["unnest(?::INTEGER[])"] * len(values))
            connection.execute(f"INSERT INTO {schema}.{table} SELECT {rows}", [column.tolist() for column in values])
    for name, sql in own_tables(names).items():
        connection.execute(f"CREATE OR REPLACE TABLE {schema}.own_{name} AS {sql}")
    return stack_views(names, stack.hidden.tolist(), dead=bool(len(stack.dead)))
