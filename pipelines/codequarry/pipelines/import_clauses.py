"""Imports whose statement says it all: its text, taken apart into the dotted names it stands for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_SOURCE_CHARS = 300
MAX_CLAUSE_BYTES = 16 << 10
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


def clause_names(node: Node, written: str, language: str) -> list[tuple[str, str]]:
    """(what an import statement names, its name here) in its order; a name for everything ends in ``*``.

    written: the text of the node.
    """
    text = written.rstrip().rstrip(";")
    text = text[match.end() :] if (match := _KEYWORDS.match(text)) else text
    if language == "csharp":
        text = _ARGUMENTS.sub("", _BINDING.sub("", text, count=1))
    names = expand(text)
    if language == "rust" and any(source.startswith(("self", "super")) for source, _ in names):
        modules = _inline_modules(node)
        return [(_from_file(source, modules), here) for source, here in names]
    return [(source.lstrip("\\"), here) for source, here in names] if language == "php" else names


def child_module(node: Node, name: str) -> str:
    """The path of the module that a Rust ``mod name;`` declares, from the file on."""
    return "::".join(["self", *_inline_modules(node), name])


def expand(text: str) -> list[tuple[str, str]]:
    """(name there, name here) for each name that a text with braces and commas stands for.

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
            prefixes.append((prefixes[-1] + _taken(current)[0])[:MAX_SOURCE_CHARS])
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
    name, alias = _taken(written)
    if name == "self" and prefix:
        source = prefix.rstrip(":")
    else:
        source = prefix + (f"{name[:-1]}*" if name == "_" or name.endswith("._") else name)
    if name:
        found.append((source[:MAX_SOURCE_CHARS], alias or _SEPARATOR.split(source)[-1]))


def _taken(written: str) -> tuple[str, str]:
    """(name, alias or "") of one name in a statement."""
    text = written.strip()
    text = text[match.end() :] if (match := _KEYWORDS.match(text)) else text
    name, *alias = _ALIAS.split(text, maxsplit=1)
    return _SPACE.sub("", name), _SPACE.sub("", alias[0])[:MAX_SOURCE_CHARS] if alias else ""


def _inline_modules(node: Node) -> list[str]:
    """Names of the Rust modules in whose braces a node lies, outermost first."""
    names: list[str] = []
    above = node.parent
    while above is not None:
        name = above.child_by_field_name("name") if above.type == "mod_item" else None
        if name is not None and above.child_by_field_name("body") is not None:
            names.insert(0, (name.text or b"").decode("utf-8", "replace"))
        above = above.parent
    return names


def _from_file(source: str, modules: list[str]) -> str:
    """A path as it would be written outside of the inline modules.

    >>> _from_file("super::a", ["tests"]), _from_file("super::super::a", ["tests"]), _from_file("crate::a", ["tests"])
    ('self::a', 'super::a', 'crate::a')
    """
    head, *rest = source.split("::")
    within = list(modules)
    while head == "super" and within:
        within.pop()
        head, *rest = rest if rest and rest[0] == "super" else ["self", *rest]
    return "::".join([head, *within, *rest]) if head == "self" else "::".join([head, *rest])
