"""Reader of the catalog's symbol tables: definitions by name or identity, and the places that name them."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Sequence
from functools import cache, cached_property
from typing import Any, Self

import numpy as np

from codequarry.serving.catalog.catalog import Catalog, marks
from codequarry.serving.catalog.definition_rows import (
    MAX_FOUND,
    DefinitionMatches,
    Named,
    NamedDefinition,
    Places,
    SymbolRow,
)
from codequarry.serving.catalog.directory import ChunkDirectory

MAX_RELATED = 500
"""Symbols that one question may spread to over relationships."""

_FULL_NAME = "concat('.', module, '.', qualified_name)"
# The rows of a name are stored together, best first, so that the order of their numbers is the one wanted.
_PLAIN = "name_key = lower($name) AND name = $name"
_PLAIN_ANY_CASE = "name_key = lower($name)"
# Names hold dots in Markdown and JSON, hence two keys: the whole requested name, and the part after its last dot.
_DOTTED = (
    "name_key IN (lower($name), lower($last)) AND name IN ($name, $last) "
    f"AND ends_with({_FULL_NAME}, concat('.', $name))"
)
_DOTTED_ANY_CASE = (
    f"name_key IN (lower($name), lower($last)) AND ends_with(lower({_FULL_NAME}), lower(concat('.', $name)))"
)
_NEAR = """
SELECT DISTINCT name FROM ({names}) ORDER BY jaro_winkler_similarity(lower(name), $name) DESC, name LIMIT 5
"""
_STARTING = "SELECT name FROM symbols_mat WHERE name_key >= $first AND name_key < $beyond AND {live}"
_FEW_HIDDEN = 256
"""Most hidden files, or runs of visible ones, whose numbers stand in the SQL: they are a parameter otherwise."""
# Only of members, not of types: code that uses a base class does not use all classes derived from it.
_RELATIONS = """
SELECT target_id, related_id FROM relations_mat WHERE role = 'reference' OR (role = 'implementation' AND NOT of_type)
"""

_IMPLEMENTING = """
SELECT target_id, related_id FROM relations_mat WHERE role = 'implementation' AND related_id IN ({marks})
"""


# Ends are added here: computed columns would be part of every plan.
_PLACES = """
SELECT target_id, file, precise, roles, start_line, start_column, lines, width, enclosing, chunk
FROM occurrences_mat WHERE target_id IN ({marks})
"""
_NAMED = """
SELECT start_column, start_line, lines, width, precise, roles, target_id
FROM places_mat WHERE file = ? AND start_line BETWEEN ? AND ?
"""


IN_ARRAYS = ("name", "qualified_name", "module", "kind")
"""Strings of a definition that are read from ``rows/``, where they cost less than from DuckDB."""
_STORED_FIELDS = tuple(name for name in SymbolRow._fields if name not in (*IN_ARRAYS, "chunk_id"))
_STORED = ", ".join(_STORED_FIELDS)
_NUMBER = _STORED_FIELDS.index("symbol_id")


class SymbolTables:
    """Symbol tables of one version. Safe to share between threads."""

    def __init__(self, catalog: Catalog, directory: ChunkDirectory, *, hidden: Sequence[int] = ()) -> None:
        """Read the symbol tables of a catalog.

        Args:
            catalog: Catalog of the version.
            directory: Its files and chunks.
            hidden: Files whose definitions are not found by name.
        """
        self._catalog = catalog
        self._directory, self._chunk_ids = directory, directory.by_row
        self._kind = cache(catalog.index.texts.__getitem__)
        self._visible: np.ndarray | None = None
        self._live, self._hidden = "true", dict[str, Any]()
        if len(hidden) > _FEW_HIDDEN:
            self._live, self._hidden = "file NOT IN (SELECT unnest($hidden::INTEGER[]))", {"hidden": list(hidden)}
        elif hidden:
            self._live = f"file NOT IN ({', '.join(map(str, hidden))})"

    def within(self, visible: np.ndarray) -> Self:
        """Return the same tables as if they held nothing of other files.

        Args:
            visible: (files,) bool, files that the caller may see.

        Returns:
            The restricted tables.
        """
        _ = self._relations  # once for all
        found = copy.copy(self)
        found._visible = visible
        edges = np.diff(visible.astype(np.int8), prepend=0, append=0)
        runs = list(zip(np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist(), strict=True))
        if len(runs) > _FEW_HIDDEN:
            seen = "file IN (SELECT unnest($visible::INTEGER[]))"
            found._hidden = {**self._hidden, "visible": np.flatnonzero(visible).tolist()}
        else:
            seen = " OR ".join(f"file BETWEEN {first} AND {end - 1}" for first, end in runs) or "false"
        found._live = f"{self._live} AND ({seen})"
        return found

    def _sees(self, file: int) -> bool:
        return self._visible is None or bool(self._visible[file])

    def called(self, name: str, kinds: Sequence[str], files: np.ndarray | None) -> DefinitionMatches:
        """Find definitions whose full name is or ends with a dotted name; case is ignored when no name matches exactly.

        Args:
            name: Plain or dotted name.
            kinds: Only these stored kinds; empty for all.
            files: (files,) bool, files to look in; None for all.

        Returns:
            Definitions, precise ones first, then those whose whole name matches.
        """
        last = name.rpartition(".")[2]
        found = self._find_named(name, last, kinds, files, any_case=False)
        if not found.rows:
            found = self._find_named(name, last, kinds, files, any_case=True)
        whole = name.lower()
        found.rows.sort(
            key=lambda row: (not row.precise, whole not in (row.qualified_name.lower(), row.full_name.lower()))
        )
        return found

    def of_symbol(self, symbol: str, kinds: Sequence[str], files: np.ndarray | None) -> DefinitionMatches:
        """Find definitions of a SCIP symbol."""
        return self._select_rows("symbol = $symbol", {"symbol": symbol}, kinds, files)

    def of_targets(self, targets: Sequence[int], kinds: Sequence[str], files: np.ndarray | None) -> DefinitionMatches:
        """Find definitions with these ``target_id``."""
        return self._found_in("target_id", targets, kinds, files)

    def of_names(self, names: Sequence[int], kinds: Sequence[str], files: np.ndarray) -> DefinitionMatches:
        """Find definitions with these ``name_id``."""
        return self._found_in("name_id", names, kinds, files)

    def starting_in(self, rows: Iterable[int]) -> list[SymbolRow]:
        """Return the definitions that start in chunks.

        Args:
            rows: Rows of ``chunks_mat``.

        Returns:
            Definitions, in no order.
        """
        numbers = [number for row in rows for number in self._catalog.index.definitions_of_row(row).tolist()]
        return self.numbered(numbers) if numbers else []

    def few_of_names(self, names: Sequence[int], most: int, files: np.ndarray | None = None) -> list[SymbolRow]:
        """Find definitions with these ``name_id``, at most that many of each, best first.

        Args:
            names: The ``name_id``.
            most: Most definitions of a name.
            files: (files,) bool, files to look in; None for all.

        Returns:
            Definitions.
        """
        sql = (
            f"SELECT {_STORED} FROM symbols_mat WHERE name_id IN (SELECT unnest($names)) AND {self._live} "
            "AND file BETWEEN $first AND $last "
            "QUALIFY row_number() OVER (PARTITION BY name_id ORDER BY symbol_id) <= $most ORDER BY symbol_id"
        )
        among = np.arange(len(self._directory.paths)) if files is None else np.flatnonzero(files)
        if not len(among):
            return []
        bounds = {"first": int(among[0]), "last": int(among[-1])}
        rows = self._fetch(sql, {"names": list(names), "most": most, **bounds, **self._hidden})
        return [found for found in self._rows(rows) if files is None or files[found.file]]

    def with_name(self, name: str, most: int, files: np.ndarray) -> list[NamedDefinition]:
        """Find definitions by their own name, without a query.

        Args:
            name: Name as it is written.
            most: Most definitions; the first are taken.
            files: (files,) bool, files to look in.

        Returns:
            Definitions.
        """
        index, text = self._catalog.index, self._catalog.index.texts
        files = files if self._visible is None else files & self._visible
        numbers = index.definitions_named([name.lower()], members=True)
        numbers = numbers[index.column("name", numbers) == text.find(name)]
        lying = self._directory.files_of_rows(index.column("chunk", numbers))
        kept = np.flatnonzero((lying >= 0) & files[lying])[:most]
        numbers = numbers[kept]
        kinds = (self._kind(number) for number in index.column("kind", numbers).tolist())
        qualified = (text[number] for number in index.column("qualified_name", numbers).tolist())
        every = zip(numbers.tolist(), lying[kept].tolist(), qualified, kinds, strict=True)
        return [NamedDefinition(number, file, name, owned, kind) for number, file, owned, kind in every]

    def signatures(self, numbers: Collection[int]) -> dict[int, str]:
        """Return signatures of definitions by number, in one query."""
        sql = "SELECT symbol_id, signature FROM symbols_mat WHERE symbol_id IN (SELECT unnest($numbers))"
        return dict(self._fetch(sql, {"numbers": list(numbers)}))

    def implementing(self, targets: Sequence[int]) -> list[tuple[int, int]]:
        """Return what an indexer says to implement, override or extend one of these targets.

        Args:
            targets: The ``target_id`` of types or members.

        Returns:
            Pairs of ``target_id``: what implements, and what is implemented.
        """
        return self._fetch(_IMPLEMENTING.format(marks=marks(targets)), list(targets)) if targets else []

    def numbered(self, numbers: Sequence[int]) -> list[SymbolRow]:
        """Return definitions by number, in no order."""
        sql = f"SELECT {_STORED} FROM symbols_mat WHERE symbol_id IN (SELECT unnest($numbers))"
        found = self._rows(self._fetch(sql, {"numbers": list(numbers)}))
        return [row for row in found if self._sees(row.file)]

    def _find_named(
        self, name: str, last: str, kinds: Sequence[str], files: np.ndarray | None, *, any_case: bool
    ) -> DefinitionMatches:
        """Find definitions by name.

        Args:
            name: Plain or dotted name.
            last: The part behind its last dot.
            kinds: Only these stored kinds; empty for all.
            files: (files,) bool, files to look in; None for all.
            any_case: Ignore case.

        Returns:
            Definitions.
        """
        if last == name:
            return self._select_rows(_PLAIN_ANY_CASE if any_case else _PLAIN, {"name": name}, kinds, files)
        condition = _DOTTED_ANY_CASE if any_case else _DOTTED
        return self._select_rows(condition, {"name": name, "last": last}, kinds, files)

    def _found_in(
        self, column: str, values: Sequence[int], kinds: Sequence[str], files: np.ndarray | None
    ) -> DefinitionMatches:
        """Find definitions by a column of numbers."""
        named = {f"value{number}": value for number, value in enumerate(values)}
        return self._select_rows(f"{column} IN ({', '.join(f'${name}' for name in named)})", named, kinds, files)

    def _select_rows(
        self, condition: str, parameters: dict[str, Any], kinds: Sequence[str], files: np.ndarray | None
    ) -> DefinitionMatches:
        condition, parameters = f"{condition} AND {self._live}", {**parameters, **self._hidden}
        if kinds:
            condition += " AND kind IN (SELECT unnest($kinds))"
            parameters = {**parameters, "kinds": list(kinds)}
        if files is not None:
            condition += " AND file IN (SELECT unnest($files))"
            parameters = {**parameters, "files": np.flatnonzero(files).tolist()}
        sql = f"SELECT {_STORED} FROM symbols_mat WHERE {condition} ORDER BY symbol_id LIMIT {MAX_FOUND + 1}"
        rows = self._rows(self._fetch(sql, parameters))
        total = len(rows)
        if total > MAX_FOUND:
            total = self._fetch(f"SELECT count(*) FROM symbols_mat WHERE {condition}", parameters)[0][0]
        return DefinitionMatches(rows[:MAX_FOUND], total)

    def _rows(self, stored: Sequence[tuple[Any, ...]]) -> list[SymbolRow]:
        """Return definitions by their rows of the columns `_STORED`."""
        index, text = self._catalog.index, cache(self._catalog.index.texts.__getitem__)
        numbers = np.array([row[_NUMBER] for row in stored], np.int32)
        chunks = self._chunk_ids[index.column("chunk", numbers)].tolist()
        strings = [map(text, index.column(name, numbers).tolist()) for name in IN_ARRAYS]
        return [
            SymbolRow(
                **dict(zip(_STORED_FIELDS, row, strict=True)), **dict(zip(IN_ARRAYS, own, strict=True)), chunk_id=chunk
            )
            for row, chunk, *own in zip(stored, chunks, *strings, strict=True)
        ]

    def qualified_names(self, targets: Iterable[int]) -> dict[int, str]:
        """Return qualified names by ``target_id``, including those of ``outside_mat``; other targets are left out."""
        named = {f"value{number}": target for number, target in enumerate(targets)}
        among = ", ".join(f"${name}" for name in named) or "NULL"
        sql = (
            f"SELECT symbol_id, qualified_name FROM symbols_mat WHERE symbol_id IN ({among}) AND {self._live} "
            f"UNION ALL SELECT target_id, qualified_name FROM outside_mat WHERE target_id IN ({among})"
        )
        return dict(self._fetch(sql, {**named, **self._hidden}))

    def near_names(self, name: str) -> list[str]:
        """Return at most five names that resemble this one and share its first letter."""
        wanted = name.rsplit(".", 1)[-1][:64].lower()
        if not wanted or ord(wanted[0]) >= 0xD7FF:
            return []
        first, beyond = wanted[0], chr(ord(wanted[0]) + 1)
        source = _STARTING.format(live=self._live)
        parameters = {"name": wanted, "first": first, "beyond": beyond, **self._hidden}
        if own := self._own_names(first, beyond):
            source, parameters = f"{source} UNION ALL SELECT unnest($own)", {**parameters, "own": own}
        return [row[0] for row in self._fetch(_NEAR.format(names=source), parameters)]

    def _own_names(self, first: str, beyond: str) -> list[str]:
        """Return names of definitions that the catalog's tables do not have.

        Args:
            first: The least name, in lower case.
            beyond: The least name that is too large.

        Returns:
            The names.
        """
        del first, beyond
        return []

    def named_on(self, file: int, line: int) -> list[Named]:
        """Return the names on a line, by column."""
        return sorted(self._names_where(file, line, line))

    def named_within(self, file: int, first: int, last: int) -> list[Named]:
        """Return the names on some lines of a file, in source order.

        Args:
            file: Row of the file in the directory.
            first: First line, 0-based.
            last: Last line, 0-based, inclusive.

        Returns:
            Names; each ends on the line on which it starts.
        """
        named = self._names_where(file, first, last, on_one_line=True)
        return sorted(named, key=lambda one: (one.end_line, one))

    def _names_where(self, file: int, first: int, last: int, *, on_one_line: bool = False) -> list[Named]:
        """Return the names that start on some lines of a file, in no order."""
        if not self._sees(file):
            return []
        sql = f"{_NAMED} AND lines = 0" if on_one_line else _NAMED
        return [
            Named(column, line + lines, column + width, *others)
            for column, line, lines, width, *others in self._fetch(sql, [file, first, last])
        ]

    def places(self, targets: Sequence[int]) -> Places:
        """Return the places that name or define one of these targets."""
        found = self._columns(_PLACES.format(marks=marks(targets)), list(targets))
        named, files, precise, roles, lines, columns, more_lines, widths, enclosing, chunks = found
        return self._only_visible(Places(
            named, files, precise, roles, lines, columns, lines + more_lines, columns + widths, enclosing,
            self._chunk_ids[chunks],
        ))  # fmt: skip

    def _only_visible(self, places: Places) -> Places:
        """Return the places in files that the caller may see."""
        return places if self._visible is None else places.where(self._visible[places.file])

    def enclosing_name(self, enclosing: int) -> str:
        """Return the qualified name of the definition that encloses a place; "" at the top level."""
        index = self._catalog.index
        return index.texts[index.column("qualified_name", enclosing)] if enclosing >= 0 else ""

    def are_of_kinds(self, definitions: np.ndarray, kinds: Collection[str]) -> np.ndarray:
        """Tell which definitions are of some kinds.

        Args:
            definitions: (m,) integers, numbers of definitions; those below 0 are of no kind.
            kinds: Stored kinds.

        Returns:
            (m,) bool.
        """
        index = self._catalog.index
        numbers = [index.texts.find(kind) for kind in kinds]
        return (definitions >= 0) & np.isin(index.column("kind", np.maximum(definitions, 0)), numbers)

    def outside(self, targets: Sequence[int]) -> list[str]:
        """Return the SCIP symbols of those targets that the bundle does not define."""
        sql = f"SELECT symbol FROM outside_mat WHERE target_id IN ({marks(targets)}) ORDER BY symbol"
        return [row[0] for row in self._fetch(sql, list(targets))]

    def outside_target(self, symbol: str) -> int | None:
        """Return the ``target_id`` of a SCIP symbol that the bundle names without defining it."""
        target = self._outside_target(symbol)
        # Where only hidden files name it, it is as if nothing did.
        return target if self._visible is None or target is None or len(self.places([target]).file) else None

    def _outside_target(self, symbol: str) -> int | None:
        found = self._fetch("SELECT target_id FROM outside_mat WHERE symbol = ?", [symbol])
        return found[0][0] if found else None

    def related(self, targets: Sequence[int]) -> list[int]:
        """Return the targets, what they override, and what overrides them, at any distance; at most `MAX_RELATED`.

        Siblings that override the same target are left out: a call of one is never a call of the other.
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
        """Pairs (from, to) sorted by from: first up to what is overridden, then down."""
        own, other = self._columns(_RELATIONS, [])
        up, down = np.argsort(own, kind="stable"), np.argsort(other, kind="stable")
        return (own[up], other[up]), (other[down], own[down])

    def _fetch(self, sql: str, parameters: Any) -> list[tuple[Any, ...]]:
        with self._catalog.reading() as cursor:
            return cursor.execute(self._catalog.parsed(sql), parameters).fetchall()

    def _columns(self, sql: str, parameters: Any) -> list[np.ndarray]:
        with self._catalog.reading() as cursor:
            found = cursor.execute(self._catalog.parsed(sql), parameters).fetchnumpy()
            return [np.asarray(column) for column in found.values()]
