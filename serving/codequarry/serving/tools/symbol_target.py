"""Resolution of a name or a place in a file to definitions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from codequarry.schemas.catalog.symbol_views import DEFINITION
from codequarry.schemas.errors import InvalidArgumentError
from codequarry.schemas.wire.symbols import MAX_SYMBOL_CHARS, MAX_URI_CHARS, SymbolTarget
from codequarry.serving.catalog import present
from codequarry.serving.catalog.definition_rows import DefinitionMatches, Named, SymbolRow
from codequarry.serving.tools.browse.file_references import FilePlace, find_place, named_place, readings
from codequarry.serving.tools.browse.file_text import around, definitions_in
from codequarry.serving.version.open import Bundle

_WORD = re.compile(rb"[\w$\x80-\xff]+")
_GO_METHOD = re.compile(r"[^()\n]*\(\*?(\w+)(?:\[[^]()]*\])?\)\.(\w+)(?:\([^()]*\))?")
"""Method in Go's notation, as stack traces have it: net/http.(*Server).Close(0x1)."""


class ResolvedTarget(NamedTuple):
    """Definitions and targets that a name or place means."""

    found: DefinitionMatches
    """Definitions that have a row in ``symbols_mat``."""
    others: tuple[int, ...] = ()
    """``target_id`` without such a row: a local, a parameter, a symbol of another package."""
    file: int = -1
    """The one file in which a local of ``others`` means something."""
    notes: tuple[str, ...] = ()
    undefined: str = ""
    """The name that is asked for, where nothing in the index defines it."""


_NONE = DefinitionMatches([], 0)


def resolve(
    bundle: Bundle, asked: SymbolTarget, kinds: Sequence[str] = (), files: np.ndarray | None = None
) -> ResolvedTarget:
    """Find the definitions that a name or place means; an empty result is not an error.

    Args:
        bundle: The version.
        asked: Name or place.
        kinds: Only definitions of these stored kinds; empty for all.
        files: (files,) bool, only definitions in these; None for all.

    Returns:
        The target.

    Raises:
        InvalidArgumentError: Not exactly one of name and place is given, or one that cannot exist.
        NotFoundError: The file does not exist.
    """
    if bool(asked.symbol) == bool(asked.uri):
        raise InvalidArgumentError(
            "symbol and uri: " + ("both are given" if asked.uri else "neither is given") + ", expected one of them",
            suggestion="give `symbol` for a name, or `uri` and `line` for a place",
        )
    for field, text, most in (
        ("symbol", asked.symbol, MAX_SYMBOL_CHARS), ("uri", asked.uri, MAX_URI_CHARS),
    ):  # fmt: skip
        _check_text(field, text, most)
    place = None
    if asked.symbol:
        if asked.line >= 0 or asked.column >= 0:
            raise InvalidArgumentError("line and column: given without uri", suggestion="give `uri`, or `symbol` alone")
        place = named_place(bundle.directory, asked.symbol)
        if place is None:
            return _find_by_name(bundle, asked.symbol, kinds, files)
    if asked.line < -1 or asked.column < -1 or max(asked.line, asked.column) >= 2**31:
        raise _no_numbers()
    if place is None and asked.line < 0 and not any(one.first for one in readings(asked.uri)):
        raise _no_numbers()
    place = place or find_place(bundle.directory, asked.uri)
    if asked.line >= 0:
        return _find_at_place(bundle, place.file, asked.line, asked.column, kinds, files)
    if not place.reference.first:
        raise _no_numbers()
    return _find_at_reference(bundle, place, asked.column, kinds, files)


def _no_numbers() -> InvalidArgumentError:
    return InvalidArgumentError(
        "line and column: expected 0-based numbers", suggestion="count lines and bytes from 0; leave column out"
    )


def _check_text(field: str, text: str, most: int) -> None:
    if len(text) > most:
        raise InvalidArgumentError(
            f"{field}: {len(text)} characters, expected at most {most}", suggestion="give the last parts of it"
        )
    if any(ord(character) < 32 or 0xD800 <= ord(character) < 0xE000 for character in text):
        raise InvalidArgumentError(
            f"{field}: holds a control character or half a surrogate pair", suggestion="send valid, printable text"
        )


def _find_by_name(bundle: Bundle, symbol: str, kinds: Sequence[str], files: np.ndarray | None) -> ResolvedTarget:
    tables = bundle.symbols
    if symbol.count(" ") >= 4:  # a SCIP symbol, or a heading of five words
        found = tables.of_symbol(symbol, kinds, files)
        if found.rows:
            return ResolvedTarget(found)
        outside = tables.outside_target(symbol)
        if outside is not None:
            return ResolvedTarget(_NONE, (outside,))
    name = dotted(symbol)
    if not name:
        raise InvalidArgumentError("symbol: holds no name", suggestion="give a name like 'open' or 'Index.open'")
    found = tables.called(name, kinds, files)
    if found.rows:
        return ResolvedTarget(found)
    return ResolvedTarget(_NONE, notes=(_unknown(bundle, name, kinds, files),), undefined=name)


def dotted(symbol: str) -> str:
    """Convert a name in the notation of several languages to one with dots.

    >>> dotted("io::Index#open()"), dotted("net/http.(*Server).Close(0x1)"), dotted("./build")
    ('io.Index.open', 'Server.Close', '/build')
    """
    plain = symbol.strip()
    if (method := _GO_METHOD.fullmatch(plain)) is not None:
        return f"{method[1]}.{method[2]}"
    return plain.removesuffix("()").replace("::", ".").replace("#", ".").strip(".")


def _unknown(bundle: Bundle, name: str, kinds: Sequence[str], files: np.ndarray | None) -> str:
    if (kinds or files is not None) and bundle.symbols.called(name, (), None).rows:
        return "no definition of this name is of this kind and within the filters"
    near = [present.one_line(one, 80) for one in bundle.symbols.near_names(name)]
    return "no definition has this name" + (f"; near names: {', '.join(near)}" if near else "")


def _find_at_reference(
    bundle: Bundle, place: FilePlace, column: int, kinds: Sequence[str], files: np.ndarray | None
) -> ResolvedTarget:
    """Find what a pasted place means: the running function of a stack trace's line, else the name that stands there."""
    _, first, _, given, function = place.reference
    line = first - 1
    uri = present.printable(f"{bundle.directory.repos[place.file]}/{bundle.directory.paths[place.file]}")
    name = dotted(function).rpartition(".")[2]
    if name:
        nested = definitions_in(bundle, [place.file]).get(place.file, [])
        running = [one.row for one in around(nested, line, line) if one.row.name == name]
        rows = [one for one in running[-1:] if _allowed(one, kinds, files)]
        if rows:
            return ResolvedTarget(DefinitionMatches(rows, len(rows)), notes=(f"read as {name} at {uri}:{first}",))
    target = _find_at_place(bundle, place.file, line, column if column >= 0 else given - 1, kinds, files)
    return target._replace(notes=(f"read as {uri}:{first}", *target.notes))


def _allowed(row: SymbolRow, kinds: Sequence[str], files: np.ndarray | None) -> bool:
    return (not kinds or row.kind in kinds) and (files is None or bool(files[row.file]))


def _find_at_place(
    bundle: Bundle, file: int, line: int, column: int, kinds: Sequence[str], files: np.ndarray | None
) -> ResolvedTarget:
    tables = bundle.symbols
    named = _under(tables.named_on(file, line), column)
    if any(one.precise for one in named):
        named = [one for one in named if one.precise]
    targets = list(dict.fromkeys(one.target_id for one in named))
    if any(one.precise or one.roles & DEFINITION for one in named):
        found = tables.of_targets(targets, kinds, files) if max(targets) >= 0 else DefinitionMatches([], 0)
        found.rows.sort(key=lambda row: (row.file, row.start_line) != (file, line))
        known = {row.target_id for row in found.rows}
        # Locals and parameters have no rows; they are variables.
        listed = files is not None or (kinds and "local" not in kinds)
        others = () if listed else tuple(one for one in targets if one not in known)
        return ResolvedTarget(found, others, file)
    if not named:
        word = _word(bundle.catalog.line(bundle.directory.repos[file], bundle.directory.paths[file], line), column)
        if not word:
            return ResolvedTarget(_NONE, notes=("there is no name at this place",))
        targets = [row.name_id for row in tables.called(word, (), None).rows[:1] if row.name == word]
        if not targets:
            return ResolvedTarget(_NONE, notes=(_unknown(bundle, word, (), None),), undefined=word)
    return _guessed(bundle, targets, file, kinds, files)


def _guessed(
    bundle: Bundle, names: list[int], file: int, kinds: Sequence[str], files: np.ndarray | None
) -> ResolvedTarget:
    """Find definitions by the name alone: in the file, else in its repository and related languages, else in any."""
    own = np.zeros(len(bundle.directory.paths), np.bool_)
    own[file] = True
    everywhere = np.ones(len(own), np.bool_)
    for scope in (own, bundle.directory.related_files(np.array([file])), everywhere):
        found = bundle.symbols.of_names(names, kinds, scope if files is None else scope & files)
        if found.rows:
            break
    folder = bundle.directory.paths[file].rpartition("/")[0]
    found.rows.sort(key=lambda row: bundle.directory.paths[row.file].rpartition("/")[0] != folder)
    return ResolvedTarget(found, notes=("no SCIP index tells what stands here: found by its name",))


def _under(named: list[Named], column: int) -> list[Named]:
    """Return the narrowest names that hold the column, else those that end there.

    Without a column, return the definitions of the line, else its first name.
    """
    if column < 0:
        written = [one for one in named if one.end_column > one.start_column]
        chosen = [one for one in written if one.roles & DEFINITION] or written
        return [one for one in chosen if one.start_column == chosen[0].start_column]
    over = [one for one in named if one.start_column <= column < one.end_column]
    over = over or [one for one in named if one.end_column == column]
    width = min((one.end_column - one.start_column for one in over), default=0)
    return [one for one in over if one.end_column - one.start_column == width]


def _word(line: bytes, column: int) -> str:
    """Return the identifier at a column of a line, or one that ends there; the line's first without a column."""
    for match in _WORD.finditer(line):
        if column < 0 or match.start() <= column <= match.end():
            return match[0].decode("utf-8", "replace")
    return ""
