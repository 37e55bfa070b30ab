"""Edges between definitions: who uses a definition, what it uses, and what extends or overrides it.

Indexers say what a name means where they ran (``exact``). Elsewhere a function or type is ``resolved`` where the file,
or one that it imports, defines the only thing of that name; a member where the file names its type beside the
receiver. What is left is known ``by name`` alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from codequarry.schemas.catalog.symbol_views import CALL, DEFINITION, IMPORT
from codequarry.schemas.kinds import stored_kinds
from codequarry.schemas.wire.symbols import Evidence
from codequarry.serving.catalog.definition_rows import SymbolRow
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.tools.naming.meanings import SAME_NAME, Meanings, Meant, NamedPlace, near_files, same_names
from codequarry.serving.tools.naming.receiver_types import TYPE_LIKE, owner_of
from codequarry.serving.version.open import Bundle

CALLABLE = frozenset(stored_kinds(["function", "method", "macro"]))
_MOST_OWNERS = 100
"""Types of one name in one file."""
_FURTHER_PLACES = 300
"""Places that are read in all steps behind the first one."""
_MOST_USES = 3_000
"""Uses that one step looks at."""


class Use(NamedTuple):
    """A place that uses a definition. Lines are 0-based."""

    of: SymbolRow
    file: int
    line: int
    enclosing: int
    """Number of the innermost definition around it; below 0 at the top level."""
    is_call: bool
    evidence: Evidence


class SymbolGraph:
    """Edges between the definitions of a version.

    Args:
        bundle: The version.
        files: (m,) int64, files that are asked about. A name means something in what shares repository and language
            family with one of them; what an indexer says is taken everywhere.
        deadline: Deadline of the request.
    """

    def __init__(self, bundle: Bundle, files: np.ndarray, deadline: Deadline) -> None:
        self._bundle = bundle
        self._kindred = bundle.directory.related_files(files)
        self._meanings = Meanings(bundle, self._kindred, deadline)
        self._of_names: dict[str, list[Meant]] = {}
        self._rows_of_names: dict[int, list[SymbolRow]] = {}
        self._extending: dict[int, list[tuple[SymbolRow, Evidence]]] = {}
        self.is_cut = False
        """True when a step found more uses than it looks at."""

    def uses_of(self, rows: Sequence[SymbolRow], *, calls_alone: bool, in_types: bool = False) -> list[Use]:
        """Find the places that use definitions; imports and the definitions themselves are left out.

        Args:
            rows: The definitions.
            calls_alone: Take calls of what can be called, and no other use that only shares the name.
            in_types: Take places whose innermost definition is a type, and no others.

        Returns:
            Places in the order of files and lines.
        """
        symbols = self._bundle.symbols
        meant: dict[int, list[SymbolRow]] = {}
        named: dict[int, list[SymbolRow]] = {}
        for row in rows:
            named.setdefault(row.name_id, []).append(row)
            for target in symbols.related([row.target_id]):
                meant.setdefault(target, []).append(row)
        if not rows:
            return []
        places = symbols.places([*meant, *named])
        importing = set(places.file[places.roles & IMPORT != 0].tolist())
        is_use = ~places.defining & (places.roles & IMPORT == 0)
        places = places.where(is_use & (places.precise | self._kindred[places.file]))
        if in_types:
            places = places.where(symbols.are_of_kinds(places.enclosing, TYPE_LIKE))
        found: list[Use] = []
        doubtful: list[tuple[list[SymbolRow], NamedPlace, bool]] = []
        for target, file, precise, roles, line, column, _, end, enclosing, _ in places.rows():
            if len(found) + len(doubtful) >= _MOST_USES:
                self.is_cut = True
                break
            called = bool(roles & CALL)
            if precise:
                found += [Use(row, file, line, enclosing, called, "exact") for row in meant.get(target, ())]
            elif wanted := [
                row for row in named.get(target, ()) if called or not (calls_alone or row.kind in CALLABLE)
            ]:
                doubtful.append((wanted, NamedPlace(file, line, column, end - column, enclosing), called))
        asked = [(self._of_name(wanted[0].name), place) for wanted, place, _ in doubtful]
        choices = self._meanings.of_places(asked, importing, near_files(self._bundle, rows))
        self._meanings.places_left = min(self._meanings.places_left, _FURTHER_PLACES)
        for (wanted, place, called), evidence in zip(doubtful, choices, strict=True):
            found += [
                Use(row, place.file, place.line, place.enclosing, called, evidence[row.symbol_id])
                for row in wanted
                if row.symbol_id in evidence
            ]
        return sorted(found, key=lambda use: (self._bundle.directory.class_rank[use.file], use.file, use.line))

    def used_by(self, row: SymbolRow) -> list[tuple[SymbolRow, int, Evidence]]:
        """Find the functions and types that a definition uses.

        Args:
            row: The definition.

        Returns:
            Each definition with the line that uses it first and the evidence; names that may mean several are left out.
        """
        symbols = self._bundle.symbols
        last = max(row.body_start_line, row.body_end_line)
        within = symbols.named_within(row.file, row.body_start_line, last)
        named = [one for one in within if not one.roles & (DEFINITION | IMPORT) and one.target_id >= 0]
        exact = list(dict.fromkeys(one.target_id for one in named if one.precise))
        by_target: dict[int, list[SymbolRow]] = {}
        for each in symbols.of_targets(exact, [], None).rows if exact else []:
            by_target.setdefault(each.target_id, []).append(each)
        same = self._rows_named([one.target_id for one in named if not one.precise])
        found: dict[int, tuple[SymbolRow, int, Evidence]] = {}
        for one in named:
            if one.precise:
                choices: list[tuple[SymbolRow, Evidence]] = [
                    (each, "exact") for each in by_target.get(one.target_id, [])[:1]
                ]
            else:
                choices = self._meant(row, same[one.target_id], is_call=bool(one.roles & CALL))
            for each, evidence in choices:
                if each.symbol_id != row.symbol_id and each.kind in CALLABLE | TYPE_LIKE:
                    found.setdefault(each.symbol_id, (each, one.end_line, evidence))
        return list(found.values())

    def extending(self, rows: Sequence[SymbolRow]) -> dict[int, list[tuple[SymbolRow, Evidence]]]:
        """Find the types that extend or implement types, and the members that override members.

        Args:
            rows: Types and members.

        Returns:
            Definitions with the evidence, by ``symbol_id`` of each row.
        """
        new = [row for row in rows if row.symbol_id not in self._extending]
        exact = self._exact_subtypes(new)
        heads = self._subtypes([row for row in new if row.kind in TYPE_LIKE])
        members = self._overrides([row for row in new if row.kind not in TYPE_LIKE])
        for row in new:
            found: dict[int, tuple[SymbolRow, Evidence]] = {}
            for each, evidence in (
                *exact.get(row.target_id, ()), *heads.get(row.symbol_id, ()), *members.get(row.symbol_id, ()),
            ):  # fmt: skip
                found.setdefault(each.symbol_id, (each, evidence))
            self._extending[row.symbol_id] = list(found.values())
        return {row.symbol_id: self._extending[row.symbol_id] for row in rows}

    def _rows_named(self, names: Iterable[int]) -> dict[int, list[SymbolRow]]:
        """Return the definitions of names by ``name_id``; those of new names are read together."""
        wanted = list(dict.fromkeys(names))
        missing = [name for name in wanted if name not in self._rows_of_names]
        if missing:
            read = same_names(self._bundle, missing, self._kindred)
            self._rows_of_names |= {name: read.get(name, []) for name in missing}
        return {name: self._rows_of_names[name] for name in wanted}

    def _of_name(self, name: str) -> list[Meant]:
        """Return the definitions of a name, the first ones."""
        if (found := self._of_names.get(name)) is None:
            found = self._of_names[name] = [*self._bundle.symbols.with_name(name, SAME_NAME, self._kindred)]
        return found

    def rows_of(self, numbers: Iterable[int]) -> dict[int, SymbolRow]:
        """Return definitions by number."""
        wanted = list(dict.fromkeys(numbers))
        return {each.symbol_id: each for each in self._bundle.symbols.numbered(wanted)} if wanted else {}

    def _exact_subtypes(self, rows: Sequence[SymbolRow]) -> dict[int, list[tuple[SymbolRow, Evidence]]]:
        """Find what indexers say to implement, extend or override definitions, by ``target_id``."""
        symbols = self._bundle.symbols
        by_target: dict[int, list[int]] = {}
        for one, implemented in symbols.implementing([row.target_id for row in rows]):
            by_target.setdefault(implemented, []).append(one)
        return {
            target: [(each, "exact") for each in symbols.of_targets(list(dict.fromkeys(others)), [], None).rows]
            for target, others in by_target.items()
        }

    def _subtypes(self, rows: Sequence[SymbolRow]) -> dict[int, list[tuple[SymbolRow, Evidence]]]:
        """Find types whose head names a type: ``class Store(Index)``, ``class Store implements Index``."""
        uses = self.uses_of(rows, calls_alone=False, in_types=True)
        around = self.rows_of(use.enclosing for use in uses)
        found: dict[int, list[tuple[SymbolRow, Evidence]]] = {}
        for use in uses:
            each = around.get(use.enclosing)
            if each is None or each.symbol_id == use.of.symbol_id:
                continue
            _, _, head = each.signature.partition(each.name)
            if use.line >= each.start_line and re.search(rf"(?<!\w){re.escape(use.of.name)}(?!\w)", head):
                found.setdefault(use.of.symbol_id, []).append((each, use.evidence))
        return found

    def _overrides(self, rows: Sequence[SymbolRow]) -> dict[int, list[tuple[SymbolRow, Evidence]]]:
        """Find members of the same names in types that extend the types of members."""
        beside = {row.symbol_id: self._likely_overrides(row) for row in rows if owner_of(row)}
        members = [row for row in rows if beside.get(row.symbol_id)]
        owners = {row.symbol_id: self._owners(row) for row in members}
        below = self._all_below({number for numbers in owners.values() for number in numbers})
        chosen: dict[int, list[tuple[int, Evidence]]] = {}
        for row in members:
            types = dict[int, tuple[SymbolRow, Evidence]]()
            for number in owners[row.symbol_id]:
                types |= below.get(number, {})
            chosen[row.symbol_id] = [
                (each.symbol_id, evidence)
                for each in beside[row.symbol_id]
                for own, evidence in types.values()
                if each.file == own.file and each.qualified_name == f"{own.qualified_name}.{row.name}"
            ]
        held = self.rows_of(number for pairs in chosen.values() for number, _ in pairs)
        return {
            number: [(held[one], evidence) for one, evidence in pairs if one in held]
            for number, pairs in chosen.items()
        }

    def _likely_overrides(self, row: SymbolRow) -> list[Meant]:
        """Return the members of other types that have the name of a member."""
        return [
            each
            for each in self._of_name(row.name)
            if owner_of(each) not in ("", owner_of(row)) or each.file != row.file
        ]

    def _owners(self, row: SymbolRow) -> list[int]:
        """Return the numbers of the types that a member is defined in."""
        beside = np.zeros(len(self._kindred), np.bool_)
        beside[row.file] = True
        owner = owner_of(row)
        owners = self._bundle.symbols.with_name(owner.rpartition(".")[2], _MOST_OWNERS, beside)
        return [each.symbol_id for each in owners if each.qualified_name == owner and each.kind in TYPE_LIKE]

    def _all_below(self, numbers: Iterable[int]) -> dict[int, Mapping[int, tuple[SymbolRow, Evidence]]]:
        """Find all types that extend types, at any distance; each level of all of them is looked up at once."""
        start = self.rows_of(numbers)
        level, seen = list(start.values()), set(start)
        while level:
            direct = self.extending(level)
            following = {each.symbol_id: each for pairs in direct.values() for each, _ in pairs}
            level = [each for number, each in following.items() if number not in seen and each.kind in TYPE_LIKE]
            seen.update(following)
        found: dict[int, Mapping[int, tuple[SymbolRow, Evidence]]] = {}
        for number in start:
            types, queue = dict[int, tuple[SymbolRow, Evidence]](), [number]
            while queue:
                for each, evidence in self._extending.get(queue.pop(), ()):
                    if each.symbol_id not in types:
                        types[each.symbol_id] = each, evidence
                        queue.append(each.symbol_id)
            found[number] = types
        return found

    def _meant(self, user: SymbolRow, same: Sequence[SymbolRow], *, is_call: bool) -> list[tuple[SymbolRow, Evidence]]:
        """Return the definition that a name in a definition means; nothing where it may mean several."""
        fitting = [
            each
            for each in same
            if self._bundle.directory.are_related(each.file, user.file)
            and (each.kind in TYPE_LIKE or (is_call and each.kind in CALLABLE))
        ]
        near = [each for each in fitting if each.file in self._meanings.reach(user.file)]
        owner = owner_of(user)
        own = [each for each in near if owner and each.qualified_name == f"{owner}.{each.name}"]
        if len(near) == 1:
            return [(near[0], "resolved")]
        for choices in (own, fitting):
            if len(choices) == 1:
                return [(choices[0], "by name")]
        return []
