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

from codequarry.schemas.errors import NotFoundError
from codequarry.schemas.kinds import stored_kinds
from codequarry.schemas.wire.symbols import Evidence
from codequarry.serving.catalog.symbols import SymbolRow
from codequarry.serving.tools.browse.file_text import read_lines
from codequarry.serving.version.open import Bundle

CERTAINTY: tuple[Evidence, ...] = ("exact", "resolved", "by name")
"""Evidence, the surest first."""
_SAME_NAME = 24
"""Definitions of one name that are told apart; a name with more means nothing by itself."""
TYPE_LIKE = frozenset(stored_kinds(["type"]))
_RECEIVER = re.compile(r"([\w$]+)(?:\([^()]*\)|\[[^][]*\])?\s*(?:\?|!!?)?(?:\.|->|::)\s*(?:<[^<>]*>\s*)?$")
_DOT = re.compile(r"(?:\.|->|::)\s*$")
_KEYWORD = re.compile(r"=(?!=)")
_KEY = re.compile(r"\s*\??:(?!:)")
_SELF = frozenset(("self", "cls", "this", "Self", "super"))
_ECMASCRIPT = frozenset(("javascript", "typescript", "tsx"))
_WITH_KEYS = _ECMASCRIPT | {"go", "rust"}
"""Languages in which a literal or a pattern names members without a receiver."""
_WITHOUT_RECEIVER = frozenset(("java", "csharp", "cpp", "kotlin", "scala", "swift", "ruby", "php"))
"""Languages in which a member is named without a receiver inside of its type."""
_EXPLICIT = _ECMASCRIPT | {"python", "go"}
"""Languages in which a file has to import what it uses of other files or, in Go, of other folders."""
_SHARING_FOLDERS = frozenset(("go", "java", "kotlin", "scala", "csharp", "swift", "c", "cpp"))
"""Languages in which the files of a folder see each other's names without an import."""
_PASSING_ON = re.compile(r"(.*/)?(__init__\.pyi?|index\.[cm]?[jt]sx?|mod\.rs|lib\.rs)")
"""Files whose imports are names that they offer to others."""
_NEAR = 80
"""Characters between a variable and its type on one line."""


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


class _Surroundings(NamedTuple):
    """What stands around a name on its line."""

    lang: str
    before: str
    after: str

    @property
    def has_receiver(self) -> bool:
        return _DOT.search(self.before) is not None

    @property
    def receiver(self) -> str:
        """Last word of the receiver; "" for an expression."""
        found = _RECEIVER.search(self.before)
        return found[1] if found is not None else ""

    @property
    def is_keyword_argument(self) -> bool:
        return self.lang == "python" and _KEYWORD.match(self.after) is not None

    @property
    def is_key(self) -> bool:
        """True for a key of a literal, or a name of a pattern: ``{ total: 1 }``, ``{ total } = cart``."""
        opened = self.before.rstrip()[-1:] in ("{", ",", "")
        return self.lang in _WITH_KEYS and opened and (_KEY.match(self.after) is not None or "{" in self.before)


class Meanings:
    """Meanings of names in one version.

    Args:
        bundle: The version.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self.reach = cache(self._reach)
        self._lines = cache(self._read_lines)
        self._names_together = cache(self._find_together)
        self._imports_module = cache(self._find_module)

    def of_place(
        self, same: Sequence[SymbolRow], place: NamedPlace, importing: Collection[int] = ()
    ) -> dict[int, Evidence]:
        """Return the definitions that a name at a place may mean, by number, with the evidence for each.

        Args:
            same: Definitions of that name.
            place: The place.
            importing: Files that import something of that name.

        Returns:
            Evidence by ``symbol_id``; empty where it means none of them.
        """
        related = [row for row in same if self._bundle.directory.are_related(row.file, place.file)]
        members = [row for row in related if "." in row.qualified_name and row.kind not in TYPE_LIKE]
        others = [row for row in related if row not in members]
        if not members and not others:
            return {}
        around = self._surroundings(place)
        if around.is_keyword_argument:
            return {}
        found: dict[int, Evidence] = {}
        if others:
            chosen, is_sure = self._free(others, place, around, place.file in importing)
            found = _evidence(chosen, is_sure=is_sure)
        if members:
            fitting, is_typed = self._members(members, place, around)
            if is_typed:
                return _evidence(fitting, is_sure=True)
            found |= _evidence(fitting, is_sure=False)
        return found

    def _free(
        self, rows: list[SymbolRow], place: NamedPlace, around: _Surroundings, is_imported: bool
    ) -> tuple[list[SymbolRow], bool]:
        """Return the functions, types and variables of files that a name may mean, and whether that is sure."""
        near = [row for row in rows if row.file in self.reach(place.file)]
        explicit = around.lang in _EXPLICIT
        if around.has_receiver:
            if around.receiver in _SELF:
                return [], True
            modules = [row for row in near or rows if self._is_module(place.file, around.receiver, row.file)]
            return (modules, True) if modules or explicit else (near or rows, False)
        if around.lang in _ECMASCRIPT and around.is_key and _KEY.match(around.after):
            return [], True
        if near or not explicit:
            return near or rows, bool(near)
        return (rows, False) if is_imported else ([], True)

    def _members(self, rows: list[SymbolRow], place: NamedPlace, around: _Surroundings) -> tuple[list[SymbolRow], bool]:
        """Return the members that a name may mean, and whether the file names their type."""
        inside = self._bundle.symbols.enclosing_name(place.enclosing)
        own = [row for row in rows if row.file == place.file and inside.startswith(f"{_owner(row)}.")]
        if not around.has_receiver:
            if around.lang in _WITHOUT_RECEIVER:
                return (own, True) if own else (rows, False)
            return (rows, False) if around.is_key else ([], False)
        if around.receiver in _SELF:
            return (own, True) if own else (rows, False)
        typed = [row for row in rows if self._is_of(place.file, around.receiver, _owner(row).rpartition(".")[2])]
        return (typed, True) if typed else (rows, False)

    def _is_of(self, file: int, receiver: str, owner: str) -> bool:
        """Tell whether a line of a file names a receiver and a type together, or the receiver is the type."""
        if not receiver or not owner:
            return False
        return receiver == owner or self._names_together(file, receiver, owner)

    def _find_together(self, file: int, receiver: str, owner: str) -> bool:
        one, other = re.escape(receiver), re.escape(owner)
        pattern = re.compile(
            rf"\b{one}\b[^;,()=]{{0,{_NEAR}}}?\b{other}\b"  # store: Store, s *Store
            rf"|\b{one}\b(?:\s*,\s*\w+)*\s*:?=[^;]{{0,{_NEAR}}}?{other}\b"  # store, err := NewStore()
            rf"|\b{other}\b[^;,()]{{0,{_NEAR}}}?\b{one}\b"  # Store store
            rf"|\b{other}\b.{{0,{_NEAR}}}?\bas {one}\b"  # with Store.open(path) as store
        )
        return any(pattern.search(line) for line in self._lines(file) if owner in line)

    def _is_module(self, file: int, receiver: str, defining: int) -> bool:
        """Tell whether a receiver is the module, package or folder of a file, or an alias for one."""
        path = self._bundle.directory.paths[defining]
        folder, _, name = path.rpartition("/")
        package = folder.rpartition("/")[2]
        return receiver in (name.partition(".")[0], package) or self._imports_module(file, receiver)

    def _find_module(self, file: int, receiver: str) -> bool:
        """Tell whether a file imports something under this name."""
        name = re.escape(receiver)
        pattern = re.compile(rf"\bas\s+{name}\b|\b(?:import|from|require)\b.*\b{name}\b|^\s*{name}\s+\"")
        return any(pattern.search(line) for line in self._lines(file) if receiver in line)

    def _surroundings(self, place: NamedPlace) -> _Surroundings:
        lines = self._lines(place.file)
        line = lines[place.line].encode() if place.line < len(lines) else b""
        before, after = line[: place.column], line[place.column + place.width :]
        lang = self._bundle.directory.langs[place.file]
        return _Surroundings(lang, before.decode("utf-8", "replace"), after.decode("utf-8", "replace"))

    def _read_lines(self, file: int) -> list[str]:
        try:
            return read_lines(self._bundle, file).text.split("\n")
        except NotFoundError:
            return []

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


def same_names(bundle: Bundle, names: Iterable[int]) -> dict[int, list[SymbolRow]]:
    """Return definitions by ``name_id``: the first ones of each name, as many as can be told apart."""
    found: dict[int, list[SymbolRow]] = {}
    wanted = list(dict.fromkeys(names))
    for each in bundle.symbols.few_of_names(wanted, _SAME_NAME) if wanted else []:
        found.setdefault(each.name_id, []).append(each)
    return found


def _owner(row: SymbolRow) -> str:
    """Return the qualified name of the type that a member is of."""
    return row.qualified_name.rpartition(".")[0]


def _evidence(rows: Sequence[SymbolRow], *, is_sure: bool) -> dict[int, Evidence]:
    """Return the evidence of several possible meanings: only a single one is resolved."""
    evidence: Evidence = "resolved" if is_sure and len(rows) == 1 else "by name"
    return {row.symbol_id: evidence for row in rows}
