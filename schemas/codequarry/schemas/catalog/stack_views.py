"""SQL of the catalog of a stack: views over the tables of a base and of the delta version over it.

The numbers are those of `schemas.bundle.stack`. Both catalogs are attached, and the arrays of ``stack/`` are tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codequarry.schemas.bundle.stack import OUTSIDE

STACK_TABLES = {
    "hidden_files": "file INTEGER",
    "shared_names": "own_id INTEGER, base_id INTEGER",
    "dead_names": "dead_id INTEGER, first_file INTEGER, last_file INTEGER",
    "successors": "own_id INTEGER, base_target INTEGER",
    "lost_targets": "target_id INTEGER",
    "linked_places": "target_id INTEGER, file INTEGER, roles SMALLINT, start_line INTEGER, start_column INTEGER, "
    "lines INTEGER, width INTEGER, enclosing INTEGER, chunk INTEGER",
}
"""Columns of the tables that hold the arrays of ``stack/``, by name of the table."""

_PLACE = "target_id, file, precise, roles, start_line, start_column, lines, width"
_ENDS = "start_line + lines AS end_line, start_column + width AS end_column"
_FEW = 256
"""Most hidden files whose numbers stand in the SQL of a view: their look-up is a join otherwise."""


@dataclass(frozen=True)
class StackNames:
    """Names and numbers by which the views find both versions."""

    base: str
    """Name under which the base's catalog is attached."""
    own: str
    """Name under which the delta's catalog is attached."""
    schema: str
    """Schema of the tables of `STACK_TABLES`."""
    files: int
    """Files of the base."""
    chunks: int
    """Chunks of the base."""
    definitions: int
    """Definitions of the base."""
    first_shard: int
    """Number of the delta's first shard among those of both."""
    precise: bool = False
    """SCIP described files of the base."""


def own_tables(names: StackNames) -> dict[str, str]:
    """Return the SQL of what the delta adds to the tables that requests read, in numbers of the stack.

    It is small, and is made a table when a stack is opened: a join in a view would be planned again for each request.

    Args:
        names: Names and numbers.

    Returns:
        SELECT statements by name of the table.
    """
    own, schema, files, chunks, definitions = names.own, names.schema, names.files, names.chunks, names.definitions
    shared = f"LEFT JOIN {schema}.shared_names ON"
    succeeding = f"LEFT JOIN {schema}.successors ON successors.own_id ="
    # Definitions name themselves by their own number or what they take the place of, everything else by that of the
    # first definition of the name.
    target = (
        f"CASE WHEN roles & 1 = 1 THEN coalesce(base_target, target_id + {definitions}) "
        f"ELSE coalesce(base_id, target_id + {definitions}) END"
    )
    enclosing = f"CASE WHEN enclosing < 0 THEN enclosing ELSE enclosing + {definitions} END"

    def places(table: str, order: str, more: str = "", own_more: str = "") -> str:
        """Return the rows of a table of places."""
        return (
            f"SELECT ({target})::INTEGER AS target_id, file + {files} AS file, precise, roles, start_line, "
            f"start_column, lines, width, {_ENDS}{own_more} FROM {own}.{table} "
            f"{shared} target_id = shared_names.own_id {succeeding} target_id UNION ALL "
            f"SELECT coalesce(base_id, target_id), file, false, roles, start_line, start_column, lines, width, "
            f"{_ENDS}{more} FROM {schema}.linked_places {shared} target_id - {definitions} = shared_names.own_id "
            f"ORDER BY {order}"
        )

    return {
        "files_mat": f"SELECT * REPLACE (file + {files} AS file) FROM {own}.files_mat",
        "chunks_mat": f"SELECT * REPLACE (file + {files} AS file, shard + {names.first_shard} AS shard) "
        f"FROM {own}.chunks_mat",
        "symbols_mat": f"SELECT symbols.* EXCLUDE (symbol_id, target_id, name_id, file), "
        f"symbol_id + {definitions} AS symbol_id, coalesce(base_target, target_id + {definitions}) AS target_id, "
        f"coalesce(base_id, name_id + {definitions}) AS name_id, file + {files} AS file "
        f"FROM {own}.symbols_mat AS symbols {shared} name_id = shared_names.own_id "
        f"{succeeding} symbols.symbol_id ORDER BY symbol_id",
        "occurrences_mat": places(
            "occurrences_mat", "target_id, file, start_line, start_column", ", enclosing, chunk",
            f", {enclosing} AS enclosing, chunk + {chunks} AS chunk",
        ),
        "places_mat": places("places_mat", "file, start_line, start_column"),
        "faiss_idmap_mat": f"SELECT faiss_row + {chunks} AS faiss_row, chunk_id FROM {own}.faiss_idmap_mat",
    }  # fmt: skip


def stack_views(names: StackNames, hidden: Sequence[int], *, dead: bool) -> dict[str, str]:
    """Return the SQL of the views that take the place of the tables that requests read.

    Args:
        names: Names and numbers.
        hidden: Files of the base that count no longer.
        dead: There are names that no file of their repository defines any more.

    Returns:
        SELECT statements by name of the table; those of `own_tables` are read as ``own_<name>`` of the schema.
    """
    base, schema = names.base, names.schema
    gone = ", ".join(map(str, hidden)) if len(hidden) <= _FEW else f"SELECT file FROM {schema}.hidden_files"
    live = f"file NOT IN ({gone})" if len(hidden) else "true"
    named = (
        f"(precise OR NOT EXISTS (SELECT 1 FROM {schema}.dead_names "
        "WHERE dead_id = target_id AND file BETWEEN first_file AND last_file))"
        if dead
        else "true"
    )
    place = _PLACE
    if names.precise:
        named += f" AND NOT (precise AND target_id IN (SELECT target_id FROM {schema}.lost_targets))"
        place = f"{_renumber_targets('target_id', names)}{_PLACE.removeprefix('target_id')}"
    columns = {
        "occurrences_mat": f"{place}, {_ENDS}, enclosing, chunk",
        "places_mat": f"{place}, {_ENDS}",
    }
    found = {
        name: f"SELECT {columns.get(name, '*')} FROM {base}.{name} WHERE {live}"
        + (f" AND {named}" if name in columns else "")
        for name in ("files_mat", "chunks_mat", "symbols_mat", *columns)
    }
    found["faiss_idmap_mat"] = (
        f"SELECT * FROM {base}.faiss_idmap_mat ANTI JOIN ({hidden_chunks(names)}) USING (chunk_id)"
    )
    found = {name: f"{sql} UNION ALL BY NAME SELECT * FROM {schema}.own_{name}" for name, sql in found.items()}
    target, related = (_renumber_targets(column, names) for column in ("target_id", "related_id"))
    return found | {
        "outside_mat": f"SELECT * REPLACE ({target}) FROM {base}.outside_mat",
        "relations_mat": f"SELECT * REPLACE ({target}, {related}) FROM {base}.relations_mat "
        f"WHERE NOT EXISTS (SELECT 1 FROM {schema}.lost_targets AS lost "
        "WHERE lost.target_id IN (relations_mat.target_id, related_id)) "
        f"AND relations_mat.target_id NOT IN (SELECT base_target FROM {schema}.successors)",
    }


def _renumber_targets(column: str, names: StackNames) -> str:
    """Return SQL for targets of the base as the stack numbers them."""
    return (
        f"(CASE WHEN {column} < {names.definitions} THEN {column} ELSE {column} + {OUTSIDE} END)::INTEGER AS {column}"
    )


def hidden_chunks(names: StackNames) -> str:
    """Return the SELECT of the base's chunks that count no longer."""
    return f"SELECT chunk_id FROM {names.base}.chunks_mat WHERE file IN (SELECT file FROM {names.schema}.hidden_files)"
