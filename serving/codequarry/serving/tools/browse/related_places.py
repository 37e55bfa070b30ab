"""Places that relate to definitions: callers, callees, types and tests, from the catalog's tables of symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from codequarry.schemas.catalog.symbol_views import CALL, DEFINITION, IMPORT, PATH_CLASSES, TYPE
from codequarry.schemas.kinds import stored_kinds
from codequarry.schemas.wire.explore import PlaceRole
from codequarry.serving.catalog import present
from codequarry.serving.catalog.definition_rows import DefinitionMatches, Named, SymbolRow
from codequarry.serving.tools.browse.excerpts import Excerpt
from codequarry.serving.tools.references import named_places, order_places
from codequarry.serving.tools.symbol_target import ResolvedTarget
from codequarry.serving.version.open import Bundle

CALLABLE = frozenset(stored_kinds(["function", "method", "macro"]))
TYPE_LIKE = frozenset(stored_kinds(["type"]))
RELATED: tuple[PlaceRole, ...] = ("caller", "callee", "type", "test")
_FEW = 3
"""A name with more definitions than these says too little where no indexer resolved it."""
_MOST_USES = 200
"""Uses of one definition that are looked at."""
_NAME_CHARS = 80
_TEST = PATH_CLASSES.index("test") + 1


class Subject(NamedTuple):
    """A definition among the matches, and the excerpt that shows it."""

    row: SymbolRow
    excerpt: Excerpt

    @property
    def name(self) -> str:
        """Qualified name as answers say it."""
        return present.one_line(self.row.qualified_name, _NAME_CHARS)


class RelatedPlace(NamedTuple):
    """A place and its relation to a definition. Lines are 0-based and inclusive."""

    role: PlaceRole
    file: int
    first: int
    last: int
    of: str
    """Name of the definition."""
    by_name: bool
    code: str
    """The line, where it is known without reading it."""


@dataclass(frozen=True, slots=True)
class RelatedSearch:
    """Bounds of a search for related places."""

    bundle: Bundle
    files: np.ndarray | None
    """(files,) bool: only places in these; None for all."""
    shows: Callable[[int, int], bool]
    """Tells of a file and a line whether the answer shows it already."""


def related_places(search: RelatedSearch, subjects: Sequence[Subject]) -> tuple[list[RelatedPlace], list[str]]:
    """Find what relates to definitions.

    Args:
        search: Where to look.
        subjects: The definitions, the most important first.

    Returns:
        Places, the most important first: each definition and each role in turn. And names of definitions whose uses
        are not among them, because others have the same name.
    """
    defined = _definitions_used(search, subjects)
    queues: list[list[RelatedPlace]] = []
    common: list[str] = []
    for subject, used in zip(subjects, defined, strict=True):
        users, is_common = _uses(search, subject)
        common += [subject.name] if is_common else []
        by_role = [[one for one in (*users, *used) if one.role == role] for role in RELATED]
        queues.append([one for row in zip_longest(*by_role) for one in row if one is not None])
    # The first definition has two places for each one of the others.
    rounds = zip_longest(*([queues[0][::2], queues[0][1::2], *queues[1:]] if queues else []))
    found: dict[tuple[int, int], RelatedPlace] = {}
    for one in (one for row in rounds for one in row if one is not None):
        found.setdefault((one.file, one.first), one)
    return list(found.values()), list(dict.fromkeys(common))


def _uses(search: RelatedSearch, subject: Subject) -> tuple[list[RelatedPlace], bool]:
    """Return callers and tests of a definition, one for each definition around them; and whether its name is common."""
    bundle, row = search.bundle, subject.row
    kindred = bundle.directory.related_files(np.array([row.file]))
    is_common = not row.precise and len(_few(bundle, [row.name_id], kindred)) > _FEW
    target = ResolvedTarget(DefinitionMatches([row], 1), file=row.file)
    places = named_places(bundle, target, heuristic=not is_common)
    kept = ~places.defining & (places.roles & (IMPORT | TYPE) == 0)
    if row.kind in CALLABLE:  # by its name alone, it may as well be a variable
        kept &= places.precise | (places.roles & CALL != 0)
    if search.files is not None:
        kept &= search.files[places.file]
    places = order_places(bundle, places.where(kept))
    places = places.where(np.arange(len(places.file)) < _MOST_USES)
    found: dict[tuple[int, int], RelatedPlace] = {}
    for _, file, precise, _, line, _, _, _, enclosing, _ in places.rows():
        if not search.shows(file, line):
            role: PlaceRole = "test" if bundle.directory.class_rank[file] == _TEST else "caller"
            around = enclosing if enclosing >= 0 else -2 - line
            found.setdefault((file, around), RelatedPlace(role, file, line, line, subject.name, not precise, ""))
    return list(found.values()), is_common


def _definitions_used(search: RelatedSearch, subjects: Sequence[Subject]) -> list[list[RelatedPlace]]:
    """Return the callees and types of each definition, in the order of their first use."""
    bundle = search.bundle
    named: list[list[Named]] = []
    for row, excerpt in subjects:
        first, last = max(row.body_start_line, excerpt.first), min(row.body_end_line, excerpt.last)
        within = bundle.symbols.named_within(row.file, first, last)
        named.append([one for one in within if not one.roles & DEFINITION and one.target_id >= 0])
    targets = list(dict.fromkeys(one.target_id for own in named for one in own if one.precise))
    by_target: dict[int, list[SymbolRow]] = {}
    for row in bundle.symbols.of_targets(targets, [], None).rows if targets else []:
        by_target.setdefault(row.target_id, []).append(row)
    by_name: dict[int, list[SymbolRow]] = {}
    names = list(dict.fromkeys(one.target_id for own in named for one in own if not one.precise))
    kindred = bundle.directory.related_files(np.array([row.file for row, _ in subjects], np.int64))
    for row in _few(bundle, names, kindred):
        by_name.setdefault(row.name_id, []).append(row)
    found: list[list[RelatedPlace]] = []
    for subject, own in zip(subjects, named, strict=True):
        places: dict[int, RelatedPlace] = {}
        for one in own:
            if one.precise:
                rows = by_target.get(one.target_id, [])[:1]
            else:
                rows = [
                    row
                    for row in by_name.get(one.target_id, [])
                    if bundle.directory.are_related(row.file, subject.row.file)
                ]
                rows = _meant(subject.row, rows, is_call=one.roles & CALL != 0)
            for row in rows:
                if (role := _role_of(row)) is not None and _is_new(search, row):
                    places.setdefault(row.symbol_id, _defined_place(role, row, subject.name, by_name=not one.precise))
        found.append(list(places.values()))
    return found


def _few(bundle: Bundle, names: list[int], files: np.ndarray) -> list[SymbolRow]:
    return bundle.symbols.few_of_names(names, 8 * _FEW, files) if names else []


def _meant(user: SymbolRow, rows: Sequence[SymbolRow], *, is_call: bool) -> list[SymbolRow]:
    """Return the definition that a bare name is likely to mean; nothing where there are several.

    Args:
        user: Definition that uses the name.
        rows: Definitions of that name.
        is_call: It is called. What is not called may be a variable or a field of the name of a function.

    Returns:
        One definition, or none.
    """
    fitting = [one for one in rows if one.kind in TYPE_LIKE or (is_call and one.kind in CALLABLE)]
    own = [one for one in fitting if one.file == user.file] or fitting
    return own if len(own) == 1 else []


def _role_of(row: SymbolRow) -> PlaceRole | None:
    return "callee" if row.kind in CALLABLE else "type" if row.kind in TYPE_LIKE else None


def _is_new(search: RelatedSearch, row: SymbolRow) -> bool:
    allowed = search.files is None or bool(search.files[row.file])
    return allowed and not search.shows(row.file, row.start_line)


def _defined_place(role: PlaceRole, row: SymbolRow, of: str, *, by_name: bool) -> RelatedPlace:
    last = max(row.body_start_line, row.body_end_line)
    code = row.signature or f"{row.kind} {row.qualified_name}"
    return RelatedPlace(role, row.file, row.body_start_line, last, of, by_name, present.one_line(code))
