"""Receivers of members: what stands before the dot of ``store.open()``, and of which type the file says it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from codequarry.schemas.errors import NotFoundError
from codequarry.serving.catalog.symbols import SymbolRow
from codequarry.serving.tools.browse.file_text import read_lines
from codequarry.serving.version.open import Bundle

_BEFORE = re.compile(r"([\w$]+)(?:\([^()]*\)|\[[^][]*\])?\s*(?:\?|!!?)?(?:\.|->|::)\s*(?:<[^<>]*>\s*)?$")
_DOT = re.compile(r"(?:\.|->|::)\s*$")
_SELF = frozenset(("self", "cls", "this", "Self", "super"))
_IMPLICIT_SELF = frozenset(("java", "csharp", "cpp", "kotlin", "scala", "swift", "ruby", "php"))
"""Languages in which a member is named without a receiver inside of its type."""
_NEAR = 80
"""Characters between a variable and its type on one line."""


class Receivers:
    """Receivers of the uses of members in one version.

    Args:
        bundle: The version.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._lines = cache(self._read_lines)
        self._stand_together = cache(self._find_together)

    def fitting(
        self, rows: Iterable[SymbolRow], file: int, line: int, column: int, inside: str
    ) -> tuple[list[SymbolRow], bool]:
        """Return the members that a use may mean, and whether the file says so.

        Args:
            rows: Members of one name.
            file: File of the use.
            line: Its line, 0-based.
            column: Bytes before the name in that line.
            inside: Qualified name of the definition around the use.

        Returns:
            The members that are left, and True where the receiver's type is named in the file.
        """
        rows = list(rows)
        lines = self._lines(file)
        before = lines[line].encode()[:column].decode("utf-8", "replace") if line < len(lines) else ""
        own = [row for row in rows if row.file == file and inside.startswith(f"{_owner(row)}.")]
        if _DOT.search(before) is None:
            implicit = self._bundle.directory.langs[file] in _IMPLICIT_SELF
            return (own, True) if own and implicit else (rows if implicit else [], False)
        found = _BEFORE.search(before)
        receiver = found[1] if found is not None else ""
        if receiver in _SELF:
            return (own, True) if own else (rows, False)
        typed = [row for row in rows if self._is_of(file, receiver, _owner(row).rpartition(".")[2])]
        return (typed, True) if typed else (rows, False)

    def _is_of(self, file: int, receiver: str, owner: str) -> bool:
        """Tell whether a line of a file names a receiver and a type together, or the receiver is the type."""
        if not receiver or not owner:
            return False
        return receiver == owner or self._stand_together(file, receiver, owner)

    def _find_together(self, file: int, receiver: str, owner: str) -> bool:
        one, other = re.escape(receiver), re.escape(owner)
        pattern = re.compile(
            rf"\b{one}\b[^;,()=]{{0,{_NEAR}}}?\b{other}\b"  # store: Store, s *Store
            rf"|\b{one}\b(?:\s*,\s*\w+)*\s*:?=[^;]{{0,{_NEAR}}}?{other}\b"  # store, err := NewStore()
            rf"|\b{other}\b[^;,()]{{0,{_NEAR}}}?\b{one}\b"  # Store store
            rf"|\b{other}\b.{{0,{_NEAR}}}?\bas {one}\b"  # with Store.open(path) as store
        )
        return any(pattern.search(line) for line in self._lines(file) if owner in line)

    def _read_lines(self, file: int) -> list[str]:
        try:
            return read_lines(self._bundle, file).text.split("\n")
        except NotFoundError:
            return []


def _owner(row: SymbolRow) -> str:
    """Return the qualified name of the type that a member is of."""
    return row.qualified_name.rpartition(".")[0]
