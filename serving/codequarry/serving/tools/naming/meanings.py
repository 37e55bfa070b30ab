"""Meaning of a name at a place, from what stands in the file: imports, receivers, and the types named beside them.

A function, type or variable of a file is ``resolved`` where the file of the place, or one that it imports, defines the
only thing of that name. A member is where the file names its type beside the receiver. What a file cannot mean is left
out: a function that it does not import in a language of explicit imports, a keyword argument, a member without a
receiver. All else is known ``by name`` alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from codequarry.schemas.kinds import stored_kinds
from codequarry.schemas.wire.symbols import Evidence
from codequarry.serving.catalog.definition_rows import NamedDefinition, SymbolRow
from codequarry.serving.catalog.directory import ChunkDirectory
from codequarry.serving.request.deadline import Deadline
from codequarry.serving.tools.browse.file_text import all_lines
from codequarry.serving.tools.naming.bindings import (
    NAME,
    SourceLines,
    last_primary,
    trailing_expression,
    with_name_marked,
)
from codequarry.serving.tools.naming.receiver_types import SELF, TYPE_LIKE, ReceiverTypes, Types, owner_of
from codequarry.serving.version.open import Bundle

Meant = SymbolRow | NamedDefinition
"""A definition that a name may mean."""
CERTAINTY: tuple[Evidence, ...] = ("exact", "resolved", "by name")
"""Evidence, the surest first."""
_MOST_FILES = 150
"""Files of places that are read in one request."""
_MOST_PLACES = 1_500
"""Places that are read in one request."""
SAME_NAME = 100
"""Definitions of one name that are told apart; a name with more means nothing by itself."""
_MEMBERS = frozenset(stored_kinds(["method", "attribute"]))
_ATTRIBUTES = frozenset(stored_kinds(["attribute"]))
_DOT = re.compile(r"(?:\?|!!?)?(?:\.|->|::)$")
_CONSTRUCTORS = frozenset(("__init__", "__new__", "constructor", "__construct"))
_FUNCTIONS = frozenset(stored_kinds(["function"]))
_IMPORTED = re.compile(rf"\bas\s+{NAME}|\b(?:import|from|require)\b.*{NAME}|^\s*{NAME}\s+\"")
"""An import of something under a name."""
_IMPORT_OF_ALL = re.compile(r"\s*from\s+[\w.]+\s+import\s+\*")
_KEYWORD = re.compile(r"=(?!=)")
_KEY = re.compile(r"\s*\??:(?!:)")
_ECMASCRIPT = frozenset(("javascript", "typescript", "tsx"))
_WITH_KEYS = _ECMASCRIPT | {"go", "rust"}
"""Languages in which a literal or a pattern names members without a receiver."""
_WITHOUT_RECEIVER = frozenset(("java", "csharp", "cpp", "kotlin", "scala", "swift", "ruby", "php"))
"""Languages in which a member is named without a receiver inside of its type."""
_EXPLICIT = _ECMASCRIPT | {"python", "go"}
"""Languages in which a file has to import what it uses of other files or, in Go, of other folders."""
_IMPORTING_NAMES = _ECMASCRIPT | {"python"}
"""Languages in which a file has to import each name that it uses without a receiver."""
_SHARING_FOLDERS = frozenset(("go", "java", "kotlin", "scala", "csharp", "swift", "c", "cpp"))
"""Languages in which the files of a folder see each other's names without an import."""
_PASSING_ON = re.compile(r"(.*/)?(__init__\.pyi?|index\.[cm]?[jt]sx?|mod\.rs|lib\.rs)")
"""Files whose imports are names that they offer to others."""


class NamedPlace(NamedTuple):
    """A place that names something."""

    file: int
    line: int
    """0-based."""
    column: int
    """Bytes before the name in the line."""
    width: int
    """Bytes of the name."""
    enclosing: int
    """Number of the definition around it; below 0 at the top level."""


class _LineAround(NamedTuple):
    """Texts around a name on its line."""

    lang: str
    before: str
    after: str

    @property
    def has_receiver(self) -> bool:
        return _DOT.search(self.before) is not None

    @property
    def receiver(self) -> str:
        """Expression before the dot."""
        return _DOT.sub("", trailing_expression(self.before))

    @property
    def is_called(self) -> bool:
        return self.after.startswith("(")

    @property
    def is_keyword_argument(self) -> bool:
        return self.lang == "python" and _KEYWORD.match(self.after) is not None and self.before.rstrip()[-1:] in "(,"

    @property
    def is_key(self) -> bool:
        """True for a key of a literal, or a name of a pattern: ``{ total: 1 }``, ``{ total } = cart``."""
        opened = self.before.rstrip()[-1:] in ("{", ",", "", "(")
        return self.lang in _WITH_KEYS and opened and (_KEY.match(self.after) is not None or "{" in self.before)


class _Choices(NamedTuple):
    """Definitions of one name that a place may mean, by its repository and language."""

    members: list[Meant]
    free: list[Meant]
    """Functions, types and variables of files."""
    nested: dict[int, list[Meant]]
    """Functions and variables inside of functions, by file."""
    by_name: dict[int, Evidence]
    """All of them, with the evidence that the name alone gives."""


class Meanings:
    """Meanings of names in one version.

    Args:
        bundle: The version.
        files: (files,) bool, files that a name can mean something in.
        deadline: Deadline of the request, checked before each place is read.
    """

    def __init__(self, bundle: Bundle, files: np.ndarray, deadline: Deadline) -> None:
        self._bundle = bundle
        self._deadline = deadline
        self._is_incomplete = False
        """True when no more definitions are read: what a type lacks then says nothing."""
        self.unread = 0
        """Number of the places that were not read: what they mean is known by name alone."""
        self._files_read: set[int] = set()
        self.places_left = _MOST_PLACES
        """Number of the places that may still be read."""
        self.reach = cache(self._reach)
        self._lines = cache(self._read_lines)
        self._types = ReceiverTypes(bundle, self._lines, files)
        self._choices: dict[tuple[int, str, str], tuple[Sequence[Meant], _Choices]] = {}
        self._of_known_types: dict[tuple[int, Types], dict[int, Evidence]] = {}
        self._imports_all = cache(self._find_import_of_all)
        self._imports_module = cache(self._find_module)

    def of_places(
        self,
        places: Sequence[tuple[Sequence[Meant], NamedPlace]],
        importing: Collection[int] = (),
        near: Collection[int] = (),
    ) -> list[dict[int, Evidence]]:
        """Return the definitions that names at places may mean, by number, with the evidence for each.

        Of many places the first ones are read, those of near files before the others. The rest is known by name.

        Args:
            places: For each place the definitions of its name.
            importing: Files that import something of these names.
            near: Files that are read first.

        Returns:
            Evidence by ``symbol_id`` for each place; empty where it means none of them.

        Raises:
            DeadlineError: The deadline has passed.
        """
        found: list[dict[int, Evidence]] = [{} for _ in places]
        left, self._is_incomplete = self._readable(places, near), False
        for at in set(range(len(places))).difference(left):
            found[at] = self._choices_at(places[at][0], places[at][1].file).by_name
        while left:
            doubtful: list[int] = []
            for at in left:
                self._deadline.check()
                before = self._types.misses
                found[at] = self._of_place(*places[at], importing)
                if self._types.misses != before:
                    doubtful.append(at)
            if self._is_incomplete:
                break
            left, self._is_incomplete = doubtful, not self._types.read_wanted()
        return found

    def _readable(self, places: Sequence[tuple[Sequence[Meant], NamedPlace]], near: Collection[int]) -> list[int]:
        """Return the positions of the places that are read."""
        chosen: list[int] = []
        for at in sorted(range(len(places)), key=lambda at: places[at][1].file not in near):
            file = places[at][1].file
            if self.places_left > 0 and (file in self._files_read or len(self._files_read) < _MOST_FILES):
                self._files_read.add(file)
                self.places_left -= 1
                chosen.append(at)
        self.unread += len(places) - len(chosen)
        return chosen

    def _choices_at(self, same: Sequence[Meant], file: int) -> _Choices:
        directory = self._bundle.directory
        key = (id(same), directory.repos[file], directory.langs[file])
        if key not in self._choices:
            self._choices[key] = same, _choices(directory, same, file)
        return self._choices[key][1]

    def _of_place(self, same: Sequence[Meant], place: NamedPlace, importing: Collection[int]) -> dict[int, Evidence]:
        choices = self._choices_at(same, place.file)
        if (around := self._line_around(place)) is None:
            return choices.by_name
        if around.is_keyword_argument:
            return {}
        others = choices.free + [row for row in choices.nested.get(place.file, ()) if self._is_inside(row, place)]
        found: dict[int, Evidence] = {}
        if others:
            chosen, is_sure = self._free(others, place, around, place.file in importing)
            found = _evidence(chosen, is_sure=is_sure)
        if choices.members and not (found and around.receiver and "resolved" in found.values()):
            of_type = self._members(choices.members, place, around)
            if "resolved" in of_type.values():
                return of_type
            found |= of_type
        return found

    def _is_inside(self, row: Meant, place: NamedPlace) -> bool:
        """Tell whether a place is inside of the function that a nested one belongs to."""
        return f"{self._bundle.symbols.enclosing_name(place.enclosing)}.".startswith(f"{owner_of(row)}.")

    def _free(
        self, rows: list[Meant], place: NamedPlace, around: _LineAround, is_imported: bool
    ) -> tuple[list[Meant], bool]:
        """Return the functions, types and variables of files that a name may mean, and whether that is sure."""
        near = [row for row in rows if row.file in self.reach(place.file)]
        explicit = around.lang in _EXPLICIT
        if around.has_receiver:
            receiver = last_primary(around.receiver)
            if receiver is None or receiver.word in SELF or receiver.is_called:
                return [], True
            modules = [row for row in near or rows if self._is_module(place.file, receiver.word, row.file)]
            return (modules, True) if modules or explicit else (near or rows, False)
        if around.lang in _ECMASCRIPT and around.is_key and _KEY.match(around.after):
            return [], True
        own = [row for row in near if row.file == place.file]
        if around.lang not in _IMPORTING_NAMES:
            return (near, True) if near or explicit else (rows, False)
        if is_imported or self._imports_all(place.file):
            return (near, True) if near else (rows, False)
        return own, True

    def _members(self, rows: list[Meant], place: NamedPlace, around: _LineAround) -> dict[int, Evidence]:
        """Return the members that a name may mean, with the evidence for each."""
        inside = self._bundle.symbols.enclosing_name(place.enclosing)
        if not around.has_receiver:
            beside = [row for row in rows if row.file == place.file and owner_of(row)]
            own = [row for row in beside if f"{inside}.".startswith(f"{owner_of(row)}.")]
            if around.lang in _WITHOUT_RECEIVER:
                return _evidence(own or rows, is_sure=bool(own))
            if around.lang == "python" and own and inside == owner_of(own[0]):
                return _evidence(own, is_sure=True)
            return _evidence(rows, is_sure=False) if around.is_key else {}
        types = self._types.of_expression(place.file, place.line, around.receiver)
        before = self._types.misses
        if (found := self._of_known_types.get((id(rows), types))) is None:
            found = self._of_types(rows, types)
            if self._types.misses == before and not self._is_incomplete:
                self._of_known_types[id(rows), types] = found
        if around.is_called and "resolved" not in found.values():
            callable_ones = {row.symbol_id for row in rows if row.kind not in _ATTRIBUTES}
            return {one: evidence for one, evidence in found.items() if one in callable_ones} or found
        return found

    def _of_types(self, rows: list[Meant], types: Types) -> dict[int, Evidence]:
        """Return the members of types, of those that they extend, and of those that extend them.

        Args:
            rows: Members of one name.
            types: Types of the receiver.

        Returns:
            Evidence by ``symbol_id``.
        """
        up: dict[str, int] = {}
        for name in types.names:
            for base, steps in self._types.above(name).items():
                up[base] = min(steps, up.get(base, steps))
        owners = {row.symbol_id: owner_of(row).rpartition(".")[2] for row in rows}
        reached = {number: up[owner] for number, owner in owners.items() if owner in up}
        found: dict[int, Evidence] = {}
        is_constructor = rows[0].name in _CONSTRUCTORS  # which no other one overrides
        nearest = min(reached.values(), default=0)
        first = [number for number, steps in reached.items() if steps == nearest]
        is_sure = len({owners[number] for number in first}) == 1
        for number, owner in owners.items():
            if number in reached:
                found[number] = "resolved" if is_sure and number in first else "by name"
            elif not is_constructor and not types.names.isdisjoint(self._types.above(owner)):
                found[number] = "by name"
        if not found and (self._is_incomplete or not types.is_whole):
            return _evidence(rows, is_sure=False)
        return found

    def _is_module(self, file: int, receiver: str, defining: int) -> bool:
        """Tell whether a receiver is the module, package or folder of a file, or an alias for one."""
        lang = self._bundle.directory.langs[file]
        if lang in _ECMASCRIPT:
            return self._types.imports_whole(file, receiver)
        path = self._bundle.directory.paths[defining]
        folder, _, name = path.rpartition("/")
        package = folder.rpartition("/")[2]
        return receiver in (name.partition(".")[0], package) or self._imports_module(file, receiver)

    def _find_module(self, file: int, receiver: str) -> bool:
        """Tell whether a file imports something under this name."""
        lines = (line for line in self._lines(file).texts if receiver in line)
        return any(_IMPORTED.search(with_name_marked(line, receiver)) for line in lines)

    def _find_import_of_all(self, file: int) -> bool:
        return any(_IMPORT_OF_ALL.match(line) for line in self._lines(file).texts)

    def _read_lines(self, file: int) -> SourceLines:
        return SourceLines(all_lines(self._bundle, file))

    def _line_around(self, place: NamedPlace) -> _LineAround | None:
        """Return the line of a place; None for one that is too long to be read."""
        lines = self._lines(place.file).texts
        line = lines[place.line].encode() if place.line < len(lines) else b""
        if not line:
            return None
        before, after = line[: place.column], line[place.column + place.width :]
        lang = self._bundle.directory.langs[place.file]
        return _LineAround(lang, before.decode("utf-8", "replace"), after.decode("utf-8", "replace"))

    def _reach(self, file: int) -> frozenset[int]:
        """Return the files whose names a file can use without more: itself, what it imports, what those pass on."""
        bundle = self._bundle
        found = {file, *bundle.imports.imported_by(file)}
        for other in list(found):
            if _PASSING_ON.fullmatch(bundle.directory.paths[other]):
                found.update(bundle.imports.imported_by(other))
        if bundle.directory.langs[file] in _SHARING_FOLDERS:
            found.update(bundle.directory.files_beside(file))
        return frozenset(found)


def near_files(bundle: Bundle, rows: Iterable[SymbolRow]) -> set[int]:
    """Return the files of definitions, and those that import them."""
    own = {row.file for row in rows}
    return own.union(*(bundle.imports.importing(file) for file in own))


def same_names(bundle: Bundle, names: Iterable[int], files: np.ndarray) -> dict[int, list[SymbolRow]]:
    """Find the definitions of names that can be told apart.

    Args:
        bundle: The version.
        names: The ``name_id``.
        files: (files,) bool, files to look in.

    Returns:
        Definitions by ``name_id``, the first ones of each.
    """
    found: dict[int, list[SymbolRow]] = {}
    wanted = list(dict.fromkeys(names))
    for each in bundle.symbols.few_of_names(wanted, SAME_NAME, files) if wanted else []:
        found.setdefault(each.name_id, []).append(each)
    return found


def _choices(directory: ChunkDirectory, same: Sequence[Meant], file: int) -> _Choices:
    """Sort definitions of one name by what a file may mean by it."""
    found = _Choices([], [], {}, {})
    for row in same:
        if not directory.are_related(row.file, file):
            continue
        found.by_name[row.symbol_id] = "by name"
        if _is_member(row, directory.langs[file]):
            found.members.append(row)
        elif row.kind in TYPE_LIKE or not owner_of(row):
            found.free.append(row)
        else:
            found.nested.setdefault(row.file, []).append(row)
    return found


def _is_member(row: Meant, lang: str) -> bool:
    """Tell whether a definition is a member of a type, which a receiver names."""
    if row.kind in _MEMBERS:
        return True
    if row.kind in TYPE_LIKE or "." not in row.qualified_name:
        return False
    return row.kind not in _FUNCTIONS or lang not in _EXPLICIT


def _evidence(rows: Sequence[Meant], *, is_sure: bool) -> dict[int, Evidence]:
    """Return the evidence of several possible meanings: only a single one is resolved."""
    evidence: Evidence = "resolved" if is_sure and len(rows) == 1 else "by name"
    return {row.symbol_id: evidence for row in rows}
