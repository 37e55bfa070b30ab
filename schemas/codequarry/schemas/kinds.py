"""Kinds of definitions: one vocabulary for filters, whatever grammars, SCIP indexers and people call them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

Kind = Literal[
    "function", "method", "class", "interface", "struct", "enum", "trait", "type", "object", "constant", "variable",
    "attribute", "module", "namespace", "macro", "table", "view", "section", "key", "element", "rule",
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)

_WORDS: Mapping[str, str] = {
    "function": "func fn def procedure subroutine predicate",
    "method": "constructor destructor getter setter accessor operator abstract_method method_alias "
    "method_specification protocol_method pure_virtual_method singleton_method static_method trait_method "
    "type_class_method",
    "class": "singleton_class contract",
    "interface": "protocol",
    "struct": "structure record union message impl",
    "enum": "enumeration",
    "trait": "type_class",
    "type": "type_alias alias typedef associated_type type_family data_family",
    "object": "package_object instance",
    "constant": "const enum_member value",
    "variable": "var let local parameter static_variable",
    "attribute": "field property event member static_data_member static_field static_property",
    "module": "package library",
    "namespace": "",
    "macro": "",
    "table": "",
    "view": "",
    "section": "heading",
    "key": "",
    "element": "",
    "rule": "selector",
}
"""Other words for each kind: those of SCIP, which tables may hold, and those that people use."""
_WIDER: Mapping[str, tuple[str, ...]] = {
    "variable": ("constant", "attribute"),
    "type": ("class", "interface", "struct", "enum", "trait", "object"),
}
"""Kinds that hold others, since languages draw the line in different places."""
_KIND_OF = {word: kind for kind, words in _WORDS.items() for word in (kind, *words.split())}


def kind_named(word: str) -> str:
    """Return the kind that a word means; a word that means none stays as it is, for the caller to refuse.

    >>> [kind_named(word) for word in ("Function", "fn", "static method", "field", "teapot")]
    ['function', 'function', 'method', 'attribute', 'teapot']
    """
    return _KIND_OF.get(word.strip().lower().replace(" ", "_").replace("-", "_"), word)


def stored_kinds(kinds: Iterable[str]) -> list[str]:
    """Return the words under which the tables hold definitions of these kinds.

    >>> stored_kinds(["trait"]), "constant" in stored_kinds(["variable"])
    (['trait', 'type_class'], True)
    """
    asked = [one for kind in kinds for one in (kind, *_WIDER.get(kind, ()))]
    return list(dict.fromkeys(word for one in asked for word in (one, *_WORDS.get(one, "").split())))
