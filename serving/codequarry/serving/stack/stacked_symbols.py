"""Symbol tables of a delta version and its base: the base's are asked in SQL, the delta's are arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from codequarry.schemas.bundle.stack import OUTSIDE
from codequarry.schemas.languages import DATA_LANGUAGES
from codequarry.serving.catalog.definition_rows import MAX_FOUND, DefinitionMatches, Named, Places, SymbolRow
from codequarry.serving.catalog.directory import ChunkDirectory
from codequarry.serving.catalog.symbols import IN_ARRAYS, SymbolTables
from codequarry.serving.stack.stacked_catalog import StackedCatalog


class StackedSymbols(SymbolTables):
    """Symbol tables of a stack. Safe to share between threads."""

    _catalog: StackedCatalog

    def __init__(self, catalog: StackedCatalog, directory: ChunkDirectory) -> None:
        """Read the symbol tables of a stack.

        Args:
            catalog: Catalog of the stack.
            directory: Its files.
        """
        super().__init__(catalog, directory, hidden=catalog.stack.hidden.tolist())
        self._stack, self._own = catalog.stack, catalog.own
        self._first = catalog.stack.base.definitions
        self._dead: dict[int, list[tuple[int, int]]] = {}
        for target, first, last in catalog.stack.dead.tolist():
            self._dead.setdefault(target, []).append((first, last))
        self._lost = frozenset(catalog.stack.lost.tolist())
        self._successors = {target: self._first + own for own, target in reversed(catalog.stack.successors.tolist())}
        """First definition that takes the place of each target."""

    def of_symbol(self, symbol: str, kinds: Sequence[str], files: np.ndarray | None) -> DefinitionMatches:
        """Find definitions of a SCIP symbol, see `SymbolTables`."""
        held = super().of_symbol(symbol, kinds, files)
        if not self._successors:
            return held
        numbers = self._fetch("SELECT target_id FROM symbols_mat WHERE symbol = $symbol LIMIT 1", {"symbol": symbol})
        own = self._own.definitions_with("target_id", [target for (target,) in numbers])
        return self._merge(held, (self._first + own).tolist(), kinds, files)

    def few_of_names(self, names: Sequence[int], most: int, files: np.ndarray | None = None) -> list[SymbolRow]:
        """Find definitions with these ``name_id``, see `SymbolTables`."""
        added = self._own_rows((self._first + self._own.definitions_with("name_id", names)).tolist())
        own = [row for row in added if files is None or files[row.file]]
        found: list[SymbolRow] = []
        counts = Counter[int]()
        for row in self._in_order([*super().few_of_names(names, most, files), *own]):
            counts[row.name_id] += 1
            if counts[row.name_id] <= most:
                found.append(row)
        return found

    def qualified_names(self, targets: Iterable[int]) -> dict[int, str]:
        """Return qualified names by ``target_id``, see `SymbolTables`."""
        index, hidden = self._catalog.index, self._stack.hidden_rows
        wanted = list(targets)
        outside = [target - OUTSIDE for target in wanted if target >= OUTSIDE]
        found = {target + OUTSIDE: name for target, name in super().qualified_names(outside).items()} if outside else {}
        numbers = {target: self._successors.get(target, target) for target in wanted if 0 <= target < OUTSIDE}
        return found | {
            target: index.texts[index.column("qualified_name", number)]
            for target, number in numbers.items()
            if number >= self._first or not hidden[index.column("chunk", number)]
            if self._visible is None or self._sees_chunk(index.column("chunk", number))
        }

    def _sees_chunk(self, row: int) -> bool:
        return bool(self._seen_rows[row])

    @cached_property
    def _seen_rows(self) -> np.ndarray:
        """Mask of the rows of chunks in files that the caller may see: (rows,) bool."""
        found = np.zeros(len(self._chunk_ids), np.bool_)
        if self._visible is not None:
            found[self._directory.rows_of(np.flatnonzero(self._visible))] = True
        return found

    def places(self, targets: Sequence[int]) -> Places:
        """Return the places that name or define one of these targets."""
        held = super().places(self._of_base(targets))
        held = held._replace(target_id=self._of_stack(held.target_id))
        live = ~self._stack.hidden_files[held.file]
        for target in targets:
            if target in self._lost:
                live &= (held.target_id != target) | ~held.precise
            for first, last in self._dead.get(target, ()):
                live &= (held.target_id != target) | held.precise | (held.file < first) | (held.file > last)
        named, files, precise, roles, lines, columns, more_lines, widths, enclosing, chunks = self._own.places_naming(
            targets
        )
        own = (
            named, files, precise, roles, lines, columns, lines + more_lines, columns + widths, enclosing,
            self._chunk_ids[chunks],
        )  # fmt: skip
        return self._only_visible(Places(*map(np.concatenate, zip(held.where(live), own, strict=True))))

    def implementing(self, targets: Sequence[int]) -> list[tuple[int, int]]:
        """Return what an indexer says of these targets, see `SymbolTables`."""
        found = np.array(super().implementing(self._of_base(targets)), np.int64).reshape(-1, 2)
        return [
            (one, other)
            for one, other in self._of_stack(found).tolist()
            if one not in self._successors and not self._lost & {one, other}
        ]

    def outside(self, targets: Sequence[int]) -> list[str]:
        return super().outside([target - OUTSIDE for target in targets if target >= OUTSIDE])

    def _outside_target(self, symbol: str) -> int | None:
        found = super()._outside_target(symbol)
        return None if found is None else found + OUTSIDE

    def _of_base(self, targets: Iterable[int]) -> list[int]:
        """Return the targets that the base has, in its own numbers."""
        moved = (target - OUTSIDE if target >= OUTSIDE else target for target in targets)
        return [own for own, target in zip(moved, targets, strict=True) if target < self._first or target >= OUTSIDE]

    def _of_stack(self, targets: np.ndarray) -> np.ndarray:
        """Return targets of the base as the stack numbers them."""
        return np.where(targets < self._first, targets, targets + OUTSIDE)

    @cached_property
    def _relations(self) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        # What a changed file says of its own definitions counts no longer.
        lost, changed = self._stack.lost, self._stack.successors[:, 1]
        up, down = (tuple(map(self._of_stack, pairs)) for pairs in super()._relations)

        def live(own: np.ndarray, other: np.ndarray) -> np.ndarray:
            return ~(np.isin(own, lost) | np.isin(own, changed) | np.isin(other, lost))

        rising, falling = live(*up), live(*reversed(down))
        return (up[0][rising], up[1][rising]), (down[0][falling], down[1][falling])

    def numbered(self, numbers: Sequence[int]) -> list[SymbolRow]:
        held = [number for number in numbers if number < self._first]
        return [*(super().numbered(held) if held else []), *self._own_rows(set(numbers) - set(held))]

    def signatures(self, numbers: Collection[int]) -> dict[int, str]:
        held = [number for number in numbers if number < self._first]
        own = {
            number: str(self._own.definitions["signature"][number - self._first]) for number in set(numbers) - set(held)
        }
        return (super().signatures(held) if held else {}) | own

    def _find_named(
        self, name: str, last: str, kinds: Sequence[str], files: np.ndarray | None, *, any_case: bool
    ) -> DefinitionMatches:
        index = self._stack.own.rows
        numbers = index.definitions_named({name.lower(), last.lower()}, members=True).tolist()
        wanted = name.lower() if any_case else name
        names, end = {wanted, last.lower() if any_case else last}, f".{wanted}"
        own: list[int] = []
        for number in numbers:
            plain, module, qualified = (
                index.texts[index.column(part, number)] for part in ("name", "module", "qualified_name")
            )
            full = f".{module}.{qualified}"
            if any_case:
                plain, full = plain.lower(), full.lower()
            if plain in names and (last == name or full.endswith(end)):
                own.append(self._first + number)
        return self._merge(super()._find_named(name, last, kinds, files, any_case=any_case), own, kinds, files)

    def _found_in(
        self, column: str, values: Sequence[int], kinds: Sequence[str], files: np.ndarray | None
    ) -> DefinitionMatches:
        own = (self._first + self._own.definitions_with(column, values)).tolist()
        return self._merge(super()._found_in(column, values, kinds, files), own, kinds, files)

    def _merge(
        self, held: DefinitionMatches, own: Iterable[int], kinds: Sequence[str], files: np.ndarray | None
    ) -> DefinitionMatches:
        """Add definitions of the delta to those of the base."""
        rows = [
            row
            for row in self._own_rows(own)
            if (not kinds or row.kind in kinds) and (files is None or bool(files[row.file]))
        ]
        if not rows:
            return held
        return DefinitionMatches(self._in_order([*held.rows, *rows])[:MAX_FOUND], held.total + len(rows))

    def _own_rows(self, numbers: Iterable[int]) -> list[SymbolRow]:
        """Return definitions of the delta by their numbers in the stack."""
        index, columns = self._catalog.index, self._own.definitions
        found: list[SymbolRow] = []
        for number in numbers:
            if not self._sees(int(columns["file"][number - self._first])):
                continue
            values: dict[str, Any] = {name: column[number - self._first] for name, column in columns.items()}
            values = {name: value if isinstance(value, str) else value.item() for name, value in values.items()}
            values |= {name: index.texts[index.column(name, number)] for name in IN_ARRAYS}
            chunk = int(self._chunk_ids[index.column("chunk", number)])
            found.append(SymbolRow(**values, symbol_id=number, chunk_id=chunk))
        return found

    def _in_order(self, rows: list[SymbolRow]) -> list[SymbolRow]:
        """Sort definitions as ``symbols_mat`` is: structure first, then by name, and the best of a name first.

        Those of the base are sorted already, and so are those of the delta, and no file is in both.
        """
        index, directory = self._catalog.index, self._directory

        def place(row: SymbolRow) -> tuple[Any, ...]:
            path = directory.paths[row.file]
            return (
                self._is_member(row.symbol_id), index.texts[index.column("key", row.symbol_id)], not row.precise,
                directory.langs[row.file] in DATA_LANGUAGES, index.column("class_rank", row.symbol_id),
                len(row.qualified_name), len(path), directory.repos[row.file], path,
            )  # fmt: skip

        return sorted(rows, key=place)

    def _is_member(self, number: int) -> bool:
        """Return whether a definition shapes no chunk."""
        held, own = self._stack.base.rows, self._stack.own.rows
        return number >= held.structural if number < self._first else number - self._first >= own.structural

    def _names_where(self, file: int, first: int, last: int, *, on_one_line: bool = False) -> list[Named]:
        if not self._sees(file):
            return []
        places = self._own.places
        columns = ("start_column", "start_line", "lines", "width", "precise", "roles", "target_id")
        rows = self._own.places_in(file, first, last)
        found = zip(*(places[name][rows].tolist() for name in columns), strict=True)
        own = [
            Named(column, line + lines, column + width, *others)
            for column, line, lines, width, *others in found
            if not (on_one_line and lines)
        ]
        if file >= self._stack.base.files or self._stack.hidden_files[file]:
            return own
        held = super()._names_where(file, first, last, on_one_line=on_one_line)
        named = zip(held, self._of_stack(np.array([one.target_id for one in held], np.int64)).tolist(), strict=True)
        return own + [
            one._replace(target_id=target)
            for one, target in named
            if not (target in self._lost if one.precise else self._is_dead(target, file))
        ]

    def _own_names(self, first: str, beyond: str) -> list[str]:
        index = self._stack.own.rows
        numbers = np.arange(self._stack.own.definitions)
        if self._visible is not None:
            numbers = numbers[self._visible[self._own.definitions["file"][numbers]]]
        names = np.unique(index.column("name", numbers)).tolist()
        return [name for name in map(index.texts.__getitem__, names) if first <= name.lower() < beyond]

    def _is_dead(self, target: int, file: int) -> bool:
        return any(first <= file <= last for first, last in self._dead.get(target, ()))
