"""Catalog of a delta version and its base: the tables that requests read, as views over the tables of both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from codequarry.schemas.bundle.layout import BundlePaths
from codequarry.schemas.errors import IntegrityError
from codequarry.serving.catalog.catalog import LOCKS, Catalog
from codequarry.serving.catalog.texts import MappedTexts
from codequarry.serving.stack.arrays import StackArrays
from codequarry.serving.stack.directory import StackedDirectory, stacked_directory
from codequarry.serving.stack.rows import StackedRows

if TYPE_CHECKING:
    import duckdb

_PLACE = "target_id, file, precise, roles, start_line, start_column, lines, width"
_OCCURRENCE = f"{_PLACE}, enclosing, chunk"
_ENDS = "start_line + lines AS end_line, start_column + width AS end_column"


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

        texts, first_shard = MappedTexts.open(own).over(MappedTexts.open(base))
        connection = duckdb.connect(config={"threads": "1", "temp_directory": ""})
        try:
            for statement in _statements(base, own, stack, first_shard):
                connection.execute(statement)
            _fill(connection, stack)
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


def _fill(connection: duckdb.DuckDBPyConnection, stack: StackArrays) -> None:
    """Fill the tables that say how the delta lies over the base."""
    columns = {
        "hidden_files": [stack.hidden],
        "names": list(stack.names.T),
        "dead": list(stack.dead.T),
        "linked": [stack.places[name] for name in stack.places.dtype.names or ()],
    }
    for table, values in columns.items():
        if len(values[0]):
            given = {f"c{number}": np.ascontiguousarray(column) for number, column in enumerate(values)}
            connection.execute(f"INSERT INTO {table} SELECT * FROM given")  # which DuckDB finds by its name
            del given


def _statements(base: BundlePaths, own: BundlePaths, stack: StackArrays, first_shard: int) -> Iterator[str]:
    """Yield the statements that make the views of a stack."""
    for name, paths in (("base", base), ("own", own)):
        quoted = str(paths.catalog).replace("'", "''")
        yield f"ATTACH '{quoted}' AS {name} (READ_ONLY)"
    yield "CREATE TABLE hidden_files (file INTEGER)"
    yield "CREATE TABLE names (own_id INTEGER, base_id INTEGER)"
    yield "CREATE TABLE dead (name_id INTEGER, first_file INTEGER, last_file INTEGER)"
    yield (
        "CREATE TABLE linked (target_id INTEGER, file INTEGER, roles SMALLINT, start_line INTEGER, "
        "start_column INTEGER, lines INTEGER, width INTEGER, enclosing INTEGER, chunk INTEGER)"
    )
    for name, sql in _views(stack, first_shard).items():
        yield f"CREATE VIEW {name} AS {sql}"


def _views(stack: StackArrays, first_shard: int) -> dict[str, str]:
    """Return the SQL of each view."""
    files, chunks, definitions = stack.base.files, stack.base.chunks, stack.base.definitions
    live = "file NOT IN (SELECT file FROM hidden_files)"
    # Definitions name themselves by their own number, everything else by that of the first definition of the name.
    target = (
        f"CASE WHEN roles & 1 = 1 THEN target_id + {definitions} ELSE coalesce(base_id, target_id + {definitions}) END"
    )
    enclosing = f"CASE WHEN enclosing < 0 THEN enclosing ELSE enclosing + {definitions} END"
    dead = (
        " AND NOT EXISTS (SELECT 1 FROM dead WHERE name_id = target_id AND file BETWEEN first_file AND last_file)"
        if len(stack.dead)
        else ""
    )
    own_place = (
        f"({target})::INTEGER AS target_id, file + {files} AS file, "
        "precise, roles, start_line, start_column, lines, width"
    )

    def places(table: str, more: str, own_more: str) -> str:
        """Return the rows of a table of places."""
        return (
            f"SELECT {_PLACE}, {_ENDS}{more} FROM base.{table} WHERE {live}{dead} UNION ALL "
            f"SELECT {own_place}, {_ENDS}{own_more} FROM own.{table} LEFT JOIN names ON target_id = own_id UNION ALL "
            f"SELECT target_id, file, false, roles, start_line, start_column, lines, width, {_ENDS}{more} FROM linked"
        )

    return {
        "files_mat": f"SELECT * FROM base.files_mat WHERE {live} UNION ALL BY NAME "
        f"SELECT * REPLACE (file + {files} AS file) FROM own.files_mat",
        "chunks_mat": f"SELECT * FROM base.chunks_mat WHERE {live} UNION ALL BY NAME "
        f"SELECT * REPLACE (file + {files} AS file, shard + {first_shard} AS shard) FROM own.chunks_mat",
        "symbols_mat": f"SELECT * FROM base.symbols_mat WHERE {live} UNION ALL BY NAME "
        f"SELECT symbols.* EXCLUDE (symbol_id, target_id, name_id, file), symbol_id + {definitions} AS symbol_id, "
        f"target_id + {definitions} AS target_id, coalesce(base_id, name_id + {definitions}) AS name_id, "
        f"file + {files} AS file FROM own.symbols_mat AS symbols LEFT JOIN names ON name_id = own_id",
        "occurrences_mat": places(
            "occurrences_mat", ", enclosing, chunk", f", {enclosing} AS enclosing, chunk + {chunks} AS chunk"
        ),
        "places_mat": places("places_mat", "", ""),
        "outside_mat": "SELECT * FROM base.outside_mat",
        "relations_mat": "SELECT * FROM base.relations_mat",
    }
