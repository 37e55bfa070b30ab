"""Reading the catalog's symbol tables: definitions by name, by what they are, and the places that name them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from codequarry.schemas.languages import DATA_LANGUAGES
from codequarry.schemas.symbol_catalog import DEFINITION
from codequarry.serving.catalog import CLASS_RANK, Catalog

MAX_RELATED = 500
"""Symbols that one question may spread to over relationships."""

_DATA = "lang IN ({})".format(", ".join(f"'{name}'" for name in sorted(DATA_LANGUAGES)))
_BEST = f"{_DATA}, {CLASS_RANK}, length(qualified_name), length(path), repo, path, start_line, start_column, symbol_id"
_FULL_NAME = "concat('.', module, '.', qualified_name)"

# Names hold dots in Markdown and JSON, hence two keys: the whole of what was asked, and what follows its last dot.
_BY_NAME = f"""
SELECT symbol_id, target_id, name_id, file, ends_with({_FULL_NAME}, concat('.', $name)) AS exact
FROM symbols_mat
WHERE name_key IN (lower($name), lower($last)) AND ends_with(lower({_FULL_NAME}), lower(concat('.', $name)))
AND ($kind = '' OR kind = $kind)
ORDER BY precise DESC,
         NOT (lower(qualified_name) = lower($name) OR lower({_FULL_NAME}) = lower(concat('.', $name))), {_BEST}
"""
_BY_COLUMN = f"""
SELECT symbol_id, target_id, name_id, file, true AS exact FROM symbols_mat
WHERE {{column}} IN ({{marks}})
ORDER BY NOT (file = ? AND start_line = ?), file <> ?, precise DESC, NOT (repo = ? AND starts_with(path, ?)),
         repo <> ?, {_BEST}
"""
_NEAR = """
SELECT DISTINCT name FROM symbols_mat WHERE name_key >= $first AND name_key < $beyond
ORDER BY jaro_winkler_similarity(lower(name), $name) DESC, name LIMIT 5
"""
_PLACES = f"""
SELECT target_id, file, precise, roles, start_line, start_column, end_line, end_column, enclosing_id, chunk_id
FROM occurrences_mat WHERE target_id IN ({{marks}}) AND (roles & {DEFINITION} <> 0) = ?
"""
# Of a member, not of a type: who uses a base class does not use all that is derived from it.
_RELATIONS = """
SELECT target_id, related_id FROM relations_mat WHERE role = 'reference' OR (role = 'implementation' AND NOT of_type)
"""


class SymbolRow(NamedTuple):
    """One row of ``symbols_mat``."""

    symbol_id: int
    target_id: int
    repo: str
    path: str
    lang: str
    name: str
    qualified_name: str
    kind: str
    precise: bool
    start_line: int
    start_column: int
    end_line: int
    end_column: int
    body_start_line: int
    body_end_line: int
    signature: str
    documentation: str
    chunk_id: int


class Definitions(NamedTuple):
    """Rows of ``symbols_mat``, best first: (m,) int32 each, but ``exact``."""

    symbol_id: np.ndarray
    target_id: np.ndarray
    name_id: np.ndarray
    file: np.ndarray
    exact: np.ndarray
    """(m,) bool: upper and lower case agree."""

    def where(self, mask: np.ndarray) -> Definitions:
        """Those rows. mask: (m,) bool."""
        return Definitions(*(column[mask] for column in self))


class Places(NamedTuple):
    """Rows of ``occurrences_mat``, (m,) each."""

    target_id: np.ndarray
    file: np.ndarray
    precise: np.ndarray
    roles: np.ndarray
    start_line: np.ndarray
    start_column: np.ndarray
    end_line: np.ndarray
    end_column: np.ndarray
    enclosing_id: np.ndarray
    chunk_id: np.ndarray

    def where(self, rows: np.ndarray) -> Places:
        """Those rows. rows: (m,) bool, or positions."""
        return Places(*(column[rows] for column in self))


class Named(NamedTuple):
    """One row of ``places_mat``."""

    start_column: int
    end_line: int
    end_column: int
    precise: bool
    roles: int
    target_id: int


class SymbolTables:
    """The symbol tables of one version. Safe to share between threads."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def called(self, name: str, kind: str) -> Definitions:
        """Definitions whose full name is or ends with a dotted name, in any case. kind: "" for all."""
        parameters = {"name": name, "last": name.rsplit(".", 1)[-1], "kind": kind}
        return Definitions(*self._columns(_BY_NAME, parameters))

    def of_symbol(self, symbol: str) -> Definitions:
        """Definitions of a SCIP symbol."""
        return self._by_column("symbol", [symbol], -1, -1, "", "")

    def of_targets(self, targets: Sequence[int], *, file: int = -1, line: int = -1) -> Definitions:
        """Definitions with these ``target_id``, the one on that line of that file first."""
        return self._by_column("target_id", targets, file, line, "", "")

    def of_names(self, names: Sequence[int], *, file: int, repo: str, folder: str) -> Definitions:
        """Definitions with these ``name_id``: of the file first, then of the folder, then of the repository."""
        return self._by_column("name_id", names, file, -1, repo, folder)

    def _by_column(
        self, column: str, values: Sequence[object], file: int, line: int, repo: str, folder: str
    ) -> Definitions:
        sql = _BY_COLUMN.format(column=column, marks=_marks(values))
        return Definitions(*self._columns(sql, [*values, file, line, file, repo, folder, repo]))

    def rows(self, symbol_ids: Iterable[int]) -> dict[int, SymbolRow]:
        """Rows by ``symbol_id``; ids that are not there are left out."""
        ids = [int(one) for one in symbol_ids]
        columns = ", ".join(SymbolRow._fields)
        found = self._fetch(f"SELECT {columns} FROM symbols_mat WHERE symbol_id IN ({_marks(ids)})", ids) if ids else []
        return {row[0]: SymbolRow(*row) for row in found}

    def qualified_names(self, symbol_ids: Iterable[int]) -> dict[int, str]:
        """Qualified names by ``symbol_id``, those of ``outside_mat`` included; ids that have none are left out."""
        ids = [int(one) for one in symbol_ids if one >= 0]
        if not ids:
            return {}
        marks = _marks(ids)
        sql = (
            f"SELECT symbol_id, qualified_name FROM symbols_mat WHERE symbol_id IN ({marks}) UNION ALL "
            f"SELECT target_id, qualified_name FROM outside_mat WHERE target_id IN ({marks})"
        )
        return dict(self._fetch(sql, [*ids, *ids]))

    def near_names(self, name: str) -> list[str]:
        """At most five names like this one, with its first letter."""
        wanted = name.rsplit(".", 1)[-1][:64].lower()
        if not wanted or ord(wanted[0]) >= 0xD7FF:
            return []
        parameters = {"name": wanted, "first": wanted[0], "beyond": chr(ord(wanted[0]) + 1)}
        return [row[0] for row in self._fetch(_NEAR, parameters)]

    def named_on(self, file: int, line: int) -> list[Named]:
        """What is named on a line, by column."""
        columns = ", ".join(Named._fields)
        sql = f"SELECT {columns} FROM places_mat WHERE file = ? AND start_line = ? ORDER BY ALL"
        return [Named(*row) for row in self._fetch(sql, [file, line])]

    def places(self, targets: Sequence[int], *, definitions: bool) -> Places:
        """Places that name one of these targets.

        definitions: those that define it, or those that do not.
        """
        return Places(*self._columns(_PLACES.format(marks=_marks(targets)), [*targets, definitions]))

    def outside(self, targets: Sequence[int]) -> list[str]:
        """SCIP symbols of those targets that the bundle does not define."""
        sql = f"SELECT symbol FROM outside_mat WHERE target_id IN ({_marks(targets)}) ORDER BY symbol"
        return [row[0] for row in self._fetch(sql, list(targets))]

    def outside_target(self, symbol: str) -> int | None:
        """``target_id`` of a SCIP symbol that the bundle names without defining it."""
        found = self._fetch("SELECT target_id FROM outside_mat WHERE symbol = ?", [symbol])
        return found[0][0] if found else None

    def related(self, targets: Sequence[int]) -> list[int]:
        """The targets, what they override, and what overrides them, at any distance; at most `MAX_RELATED`.

        Not what else overrides the same: a call of one of two siblings is never a call of the other.
        """
        found = dict.fromkeys(targets)
        for source, reached in self._relations:
            queue = list(targets)
            while queue and len(found) < MAX_RELATED:
                target = queue.pop()
                low, high = np.searchsorted(source, [target, target + 1])
                new = [one for one in reached[low:high].tolist() if one not in found]
                found.update(dict.fromkeys(new))
                queue += new
        return list(found)[:MAX_RELATED]

    @cached_property
    def _relations(self) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """(from, to) sorted by from: once up to what is overridden, once down."""
        own, other = self._columns(_RELATIONS, [])
        up, down = np.argsort(own, kind="stable"), np.argsort(other, kind="stable")
        return (own[up], other[up]), (other[down], own[down])

    def _fetch(self, sql: str, parameters: Any) -> list[tuple[Any, ...]]:
        with self._catalog.reading() as cursor:
            return cursor.execute(sql, parameters).fetchall()

    def _columns(self, sql: str, parameters: Any) -> list[np.ndarray]:
        with self._catalog.reading() as cursor:
            return list(cursor.execute(sql, parameters).fetchnumpy().values())


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
