"""Parsing of SCIP symbol strings (grammar: message Symbol of scip.proto)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

_PART = r"((?:[^ ]|  )*) "
_SYMBOL = re.compile(_PART + _PART + _PART + _PART + "(.*)", re.DOTALL)
# Identifiers beyond ASCII should come escaped; unescaped ones are accepted as well.
_NAME = r"`(?:[^`]|``)+`|[\w+\-$]+"
_DESCRIPTOR = re.compile(
    rf"(?P<suffixed>{_NAME})(?P<suffix>[/#:!]|\((?:{_NAME})?\)\.|\.)"
    rf"|\[(?P<type_parameter>{_NAME})\]|\((?P<parameter>{_NAME})\)"
)
_KIND_OF_SUFFIX = {"/": "namespace", "#": "type", ".": "term", ":": "meta", "!": "macro"}


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol string in its parts; "" stands for a missing part, also for the string's placeholder '.'."""

    scheme: str
    manager: str
    package: str
    version: str
    descriptors: str
    """The path inside the package as it stands in the string; the whole string when it breaks the grammar."""
    names: tuple[str, ...]
    """Names of the descriptors, unescaped, outermost first."""
    kinds: tuple[str, ...]
    """namespace, type, term, method, type_parameter, parameter, meta or macro, one for each name; local for a local."""
    parent: str
    """The symbol that encloses this one; "" at the top and for locals."""

    @property
    def namespace(self) -> tuple[str, ...]:
        """The leading names that are namespaces, outermost first.

        >>> parse_symbol("scip-python python lib 0.1 `a.b`/Box#open().").namespace
        ('a.b',)
        """
        return tuple(
            name
            for name, _ in takewhile(lambda named: named[1] == "namespace", zip(self.names, self.kinds, strict=True))
        )


@lru_cache(maxsize=65_536)
def parse_symbol(text: str) -> Symbol:
    """Parse a symbol string; one that breaks the grammar has no names.

    >>> symbol = parse_symbol("scip-python python my  lib 0.1 `a.b`/Box#open().")
    >>> symbol.package, symbol.names, symbol.kinds
    ('my lib', ('a.b', 'Box', 'open'), ('namespace', 'type', 'method'))
    >>> symbol.parent
    'scip-python python my  lib 0.1 `a.b`/Box#'
    >>> parse_symbol("local 3").names
    ('3',)
    """
    if text.startswith("local "):
        return Symbol("local", "", "", "", text[6:], (text[6:],), ("local",), "")
    match = _SYMBOL.fullmatch(text)
    if match is None:
        return _malformed(text)
    scheme, manager, package, version = (_unescaped(part) for part in match.groups()[:4])
    descriptors = match[5]
    names: list[str] = []
    kinds: list[str] = []
    position = last = 0
    while position < len(descriptors):
        found = _DESCRIPTOR.match(descriptors, position)
        if found is None:
            return _malformed(text)
        suffixed = found.lastgroup == "suffix"
        names.append(_bare(found["suffixed" if suffixed else found.lastgroup or ""]))
        kinds.append(_KIND_OF_SUFFIX.get(found["suffix"], "method") if suffixed else found.lastgroup or "")
        position, last = found.end(), position
    if not names:
        return _malformed(text)
    parent = text[: match.start(5) + last] if last else ""
    return Symbol(scheme, manager, package, version, descriptors, tuple(names), tuple(kinds), parent)


def _malformed(text: str) -> Symbol:
    return Symbol("", "", "", "", text, (), (), "")


def _unescaped(part: str) -> str:
    return "" if part == "." else part.replace("  ", " ")


def _bare(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
