"""Imports whose statement text is enough: it is parsed into the dotted names it stands for."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from codequarry.schemas.records import Definition

MAX_SOURCE_CHARS = 300
MAX_CLAUSE_BYTES = 16 << 10
_MAX_INLINE_MODULES = 64
_KEYWORDS = re.compile(
    r"(?:(?:pub(?:\s*\([^)]*\))?|use|import|using|global|static|function|const|unsafe|@\w+"
    r"|struct|class|enum|protocol|typealias|func|var|let|actor)\s+)+"
)
_BINDING = re.compile(r"\w+\s*=(?!>)\s*")
_ALIAS = re.compile(r"\s+as\s+|\s*=>\s*")
_SEPARATOR = re.compile(r"::|[.\\]")
_ARGUMENTS = re.compile(r"<[^<>]*>")
_SPACE = re.compile(r"\s+")
_TOKEN = re.compile(r"[{},]|[^{},]+")


class InlineModules:
    """The modules of a Rust file that are written in braces, looked up by position."""

    def __init__(self, definitions: Sequence[Definition]) -> None:
        self._starts: list[int] = []
        self._within: list[_Module | None] = []
        """The innermost module from each start to the next one."""
        open_modules: list[_Module] = []
        for one in definitions:
            if one.kind == "module" and one.body_byte < one.end_byte:
                self._close(open_modules, one.start_byte)
                outer = open_modules[-1] if open_modules else None
                open_modules.append(_Module(one.name, outer, one.end_byte, outer.depth + 1 if outer else 1))
                self._change(one.start_byte, open_modules[-1])
        self._close(open_modules, None)

    def _close(self, open_modules: list[_Module], before: int | None) -> None:
        while open_modules and (before is None or open_modules[-1].end <= before):
            ended = open_modules.pop()
            self._change(ended.end, ended.outer)

    def _change(self, place: int, module: _Module | None) -> None:
        self._starts.append(place)
        self._within.append(module)

    def around(self, place: int) -> list[str] | None:
        """Return the names of the modules in whose braces a position lies, outermost first.

        Args:
            place: Byte position.

        Returns:
            Names; None when more than `_MAX_INLINE_MODULES` modules are nested.
        """
        at = bisect_right(self._starts, place) - 1
        module = self._within[at] if at >= 0 else None
        if module is not None and module.depth > _MAX_INLINE_MODULES:
            return None
        names: list[str] = []
        while module is not None:
            names.append(module.name)
            module = module.outer
        return names[::-1]


class _Module(NamedTuple):
    name: str
    outer: _Module | None
    end: int
    depth: int


def clause_names(written: str, language: str, modules: InlineModules, place: int) -> list[tuple[str, str]]:
    """Return (imported name, its local name) for each name of an import statement, in order.

    Args:
        written: Text of the statement.
        language: Name of the language.
        modules: Inline modules of the file.
        place: Start of the statement.

    Returns:
        Pairs of names; a wildcard import ends in ``*``.
    """
    text = written.rstrip().rstrip(";")
    text = text[match.end() :] if (match := _KEYWORDS.match(text)) else text
    if language == "csharp":
        text = _ARGUMENTS.sub("", _BINDING.sub("", text, count=1))
    names = expand(text)
    if language == "rust" and any(source.startswith(("self", "super")) for source, _ in names):
        around = modules.around(place)
        return [(_from_file(source, around), here) for source, here in names]
    return [(source.lstrip("\\"), here) for source, here in names] if language == "php" else names


def child_module(modules: list[str] | None, name: str) -> str:
    """Return the path of the module that a Rust ``mod name;`` declares, relative to the file.

    Args:
        modules: Inline modules around the declaration.
        name: Declared name.

    Returns:
        Path that begins with ``self``.
    """
    return "::".join(["self", *(modules or ()), name])


def expand(text: str) -> list[tuple[str, str]]:
    """Return (imported name, local name) for each name that a text with braces and commas stands for.

    >>> expand("crate::a::{b, c::{self, d as e}, *}")
    [('crate::a::b', 'b'), ('crate::a::c', 'c'), ('crate::a::c::d', 'e'), ('crate::a::*', '*')]
    >>> expand("x.{A => B, _}, y.z")
    [('x.A', 'B'), ('x.*', '*'), ('y.z', 'z')]
    """
    found: list[tuple[str, str]] = []
    prefixes = [""]
    current = ""
    for token in _TOKEN.findall(text):
        if token == "{":
            prefixes.append((prefixes[-1] + _split_alias(current)[0])[:MAX_SOURCE_CHARS])
            current = ""
        elif token in "},":
            _add(found, prefixes[-1], current)
            current = ""
            if token == "}" and len(prefixes) > 1:
                prefixes.pop()
        else:
            current = token
    _add(found, prefixes[-1], current)
    return found


def _add(found: list[tuple[str, str]], prefix: str, written: str) -> None:
    name, alias = _split_alias(written)
    if name == "self" and prefix:
        source = prefix.rstrip(":")
    else:
        source = prefix + (f"{name[:-1]}*" if name == "_" or name.endswith("._") else name)
    if name:
        found.append((source[:MAX_SOURCE_CHARS], alias or _SEPARATOR.split(source)[-1]))


def _split_alias(written: str) -> tuple[str, str]:
    """Return (name, alias or "") of one name in a statement."""
    text = written.strip()
    text = text[match.end() :] if (match := _KEYWORDS.match(text)) else text
    name, *alias = _ALIAS.split(text, maxsplit=1)
    return _SPACE.sub("", name), _SPACE.sub("", alias[0])[:MAX_SOURCE_CHARS] if alias else ""


def _from_file(source: str, modules: list[str] | None) -> str:
    """Return a path as it would be written outside of the inline modules.

    >>> _from_file("super::a", ["tests"]), _from_file("super::super::a", ["tests"]), _from_file("crate::a", ["tests"])
    ('self::a', 'super::a', 'crate::a')
    """
    head, *rest = source.split("::")
    within = list(modules or ())
    while head == "super" and within:
        within.pop()
        head, *rest = rest if rest and rest[0] == "super" else ["self", *rest]
    return "::".join([head, *within, *rest]) if head == "self" else "::".join([head, *rest])
