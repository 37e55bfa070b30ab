"""Edges between definitions: who uses a definition, what it uses, and what extends or overrides it.

Indexers say what a name means where they ran (``exact``). Elsewhere a function or type is ``resolved`` where the file,
or one that it imports, defines the only thing of that name; a member where the file names its type beside the
receiver. What is left is known ``by name`` alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from codequarry.schemas.catalog.symbol_views import CALL, DEFINITION, IMPORT
from codequarry.schemas.kinds import stored_kinds
from codequarry.schemas.wire.symbols import Evidence
from codequarry.serving.catalog.definition_rows import SymbolRow
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.tools.naming.meanings import Meanings, NamedPlace, near_files, same_names
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
        self._same_names: dict[int, list[SymbolRow]] = {}
        self._extending: dict[int, list[tuple[SymbolRow, Evidence]]] = {}
        self.is_cut = False
        """True when a step found more uses than it looks at."""

    def uses_of(self, rows: Sequence[SymbolRow], *, calls_alone: bool) -> list[Use]:
        """Find the places that use definitions; imports and the definitions themselves are left out.

        Args:
            rows: The definitions.
            calls_alone: Take calls of what can be called, and no other use that only shares the name.

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
        kindred = self._definitions_named(named)
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
        asked = [(kindred[wanted[0].name_id], place) for wanted, place, _ in doubtful]
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
        same = self._definitions_named([one.target_id for one in named if not one.precise])
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

    def extending(self, row: SymbolRow) -> list[tuple[SymbolRow, Evidence]]:
        """Find the types that extend or implement a type, or the members that override a member.

        Args:
            row: The type or the member.

        Returns:
            Definitions with the evidence.
        """
        if (known := self._extending.get(row.symbol_id)) is not None:
            return known
        symbols = self._bundle.symbols
        pairs = symbols.implementing([row.target_id])
        exact = symbols.of_targets(list(dict.fromkeys(own for own, _ in pairs)), [], None).rows if pairs else []
        found: dict[int, tuple[SymbolRow, Evidence]] = {each.symbol_id: (each, "exact") for each in exact}
        others = self._subtypes(row) if row.kind in TYPE_LIKE else self._overrides(row)
        for each, evidence in others:
            found.setdefault(each.symbol_id, (each, evidence))
        self._extending[row.symbol_id] = list(found.values())
        return self._extending[row.symbol_id]

    def _definitions_named(self, names: Iterable[int]) -> dict[int, list[SymbolRow]]:
        """Return the definitions of names by ``name_id``; those of new names are read together."""
        wanted = list(dict.fromkeys(names))
        missing = [name for name in wanted if name not in self._same_names]
        if missing:
            read = same_names(self._bundle, missing, self._kindred)
            self._same_names |= {name: read.get(name, []) for name in missing}
        return {name: self._same_names[name] for name in wanted}

    def _subtypes(self, row: SymbolRow) -> list[tuple[SymbolRow, Evidence]]:
        """Find types whose head names a type: ``class Store(Index)``, ``class Store implements Index``."""
        word = re.compile(rf"(?<!\w){re.escape(row.name)}(?!\w)")
        uses = [use for use in self.uses_of([row], calls_alone=False) if use.enclosing >= 0]
        around = {each.symbol_id: each for each in self._bundle.symbols.numbered([use.enclosing for use in uses])}
        found: list[tuple[SymbolRow, Evidence]] = []
        for use in uses:
            each = around.get(use.enclosing)
            if each is None or each.kind not in TYPE_LIKE or each.symbol_id == row.symbol_id:
                continue
            _, _, head = each.signature.partition(each.name)
            if use.line >= each.start_line and word.search(head):
                found.append((each, use.evidence))
        return found

    def _overrides(self, row: SymbolRow) -> list[tuple[SymbolRow, Evidence]]:
        """Find members of the same name in types that extend the type of a member."""
        owner = owner_of(row)
        same = self._definitions_named([row.name_id])[row.name_id]
        named = [each for each in same if owner_of(each) not in ("", owner) or each.file != row.file]
        if not owner or not named:
            return []
        beside = np.zeros(len(self._kindred), np.bool_)
        beside[row.file] = True
        name = owner.rpartition(".")[2]
        owners = self._bundle.symbols.with_name(name, _MOST_OWNERS, beside)
        numbers = [each.symbol_id for each in owners if each.qualified_name == owner and each.kind in TYPE_LIKE]
        queue = self._bundle.symbols.numbered(numbers) if numbers else []
        types: dict[int, tuple[SymbolRow, Evidence]] = {}
        while queue:
            for each, evidence in self.extending(queue.pop()):
                if each.symbol_id not in types:
                    types[each.symbol_id] = each, evidence
                    queue.append(each)
        return [
            (each, evidence)
            for each in named
            for own, evidence in types.values()
            if each.file == own.file and each.qualified_name == f"{own.qualified_name}.{row.name}"
        ]

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
