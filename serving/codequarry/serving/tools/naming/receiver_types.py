"""Types of receivers, as far as the file and the definitions of the version name them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from codequarry.schemas.kinds import stored_kinds
from codequarry.serving.catalog.definition_rows import NamedDefinition, SymbolRow
from codequarry.serving.tools.naming.bindings import (
    Binding,
    Primary,
    SourceLines,
    alternatives,
    bindings_above,
    imports_whole,
    is_literal,
    last_primary,
    member_bindings,
    type_around,
)
from codequarry.serving.version.open import Bundle

ValueT = TypeVar("ValueT")
TYPE_LIKE = frozenset(stored_kinds(["type"]))
_SET = frozenset(stored_kinds(["attribute", "variable"]))
_TYPED = frozenset(stored_kinds(["function", "method", "attribute", "variable"]))
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_DOTTED = re.compile(r"[A-Za-z_$][\w$.]*")
_TRANSPARENT = frozenset(("Optional", "Union", "None", "Final", "ClassVar", "Annotated", "Type", "type", "null",
                          "undefined", "readonly", "const", "mut", "dyn", "impl", "Readonly", "Promise",
                          "Awaitable"))  # fmt: skip
_UNKNOWN = frozenset(("Any", "any", "unknown", "object", "Object", "Self", "interface", "auto", "var"))
_VARIABLE = re.compile(r"_?[A-Z]\d?")
"""A variable of types, by convention."""
_HEADS = frozenset(("def", "func", "fn", "fun", "function", "async", "static", "public", "private", "protected", "let",
                    "const", "var", "val", "readonly", "final", "export", "pub", "mut", "abstract", "override", "type",
                    "class", "get", "set", "internal", "virtual", "inline", "open", "self", "this"))  # fmt: skip
SELF = frozenset(("self", "cls", "this", "Self", "super"))
_MOST_SIGNATURES = 20_000
_MOST_OF_NAME = 100
_DEEPEST = 3
_MOST_BINDINGS = 8
_HIGHEST = 6
"""Steps from a type to those that it extends."""


class Types(NamedTuple):
    """Names of types that a receiver may have."""

    names: frozenset[str]
    is_whole: bool
    """True where it has one of these and no other."""


NOTHING = Types(frozenset(), False)
_OF_ELSEWHERE = Types(frozenset(), True)
"""Of the language or of other packages: none of the version's types."""


class ReceiverTypes:
    """Types of expressions in one version.

    Args:
        bundle: The version.
        lines_of: Returns the lines of a file.
        files: (files,) bool, files whose types count.
    """

    def __init__(self, bundle: Bundle, lines_of: Callable[[int], SourceLines], files: np.ndarray) -> None:
        self._bundle = bundle
        self._files = files
        self._lines_of = lines_of
        self._nested = 0
        self._named: dict[str, list[NamedDefinition]] = {}
        self._signatures: dict[int, str] = {}
        self._wanted: dict[int, NamedDefinition] = {}
        self._known: dict[tuple[Any, ...], Any] = {}
        self._doubtful: dict[tuple[Any, ...], Any] = {}
        self.misses = 0
        """Times that a signature was asked for that has not been read."""
        self._binding = cache(self._find_binding)
        self.imports_whole = cache(self._find_whole_import)

    def of_expression(self, file: int, line: int, expression: str, depth: int = 0) -> Types:
        """Find the types that an expression may have.

        Args:
            file: File of the expression.
            line: Its line, 0-based.
            expression: Its text.
            depth: Variables that led to it.

        Returns:
            Types.
        """
        if len(parts := alternatives(expression)) > 1:
            return _together([self.of_expression(file, line, part, depth) for part in parts])
        primary = last_primary(expression)
        if primary is None:
            return _OF_ELSEWHERE if is_literal(expression.lstrip()) else NOTHING
        if primary.word in SELF and not primary.of:
            name = type_around(self._lines_of(file).texts, line)
            names = self.bases(name) if primary.word == "super" else {name} - {""}
            return Types(frozenset(names), bool(name))
        if depth >= _DEEPEST or primary.word.isdigit():
            return NOTHING
        word, lang = primary.word, self._bundle.directory.langs[file]
        if self.is_type(word) or (primary.is_called and word[:1].isupper() and lang != "go"):
            return Types(frozenset((word,)), True)
        if primary.of:
            return self._of_member(file, line, primary, depth)
        binding = self._binding(file, line, word)
        found = self._of_binding(file, binding, depth) if binding is not None else NOTHING
        if primary.is_called:
            returned = self._of_calling(found) if found.names else NOTHING
            return returned if returned.names else self._declared(word) or NOTHING
        if binding is None and self.imports_whole(file, word):
            return Types(frozenset((word,)), True)
        return found

    def _find_whole_import(self, file: int, word: str) -> bool:
        """Tell whether a file imports a module as a whole under a name."""
        return imports_whole(self._lines_of(file).texts, word, self._bundle.directory.langs[file])

    def is_type(self, word: str) -> bool:
        """Tell whether a type of the version has this name."""
        return any(row.kind in TYPE_LIKE for row in self._definitions(word))

    def _find_above(self, name: str) -> dict[str, int]:
        found = {name: 0}
        level = [name]
        for steps in range(1, _HIGHEST + 1):
            level = [base for one in level for base in self.bases(one) if base not in found]
            found |= dict.fromkeys(level, steps)
            if not level:
                break
        return found

    def _find_bases(self, name: str) -> frozenset[str]:
        types = [one for one in self._definitions(name) if one.kind in TYPE_LIKE]
        return frozenset().union(*(_extended(name, self._signature(one)) for one in types)) - {name}

    def _of_binding(self, file: int, binding: Binding, depth: int) -> Types:
        if binding.type_text:
            return _of_type(binding.type_text)
        if binding.expression:
            return self.of_expression(file, binding.line, binding.expression, depth + 1)
        return NOTHING

    def _of_member(self, file: int, line: int, primary: Primary, depth: int) -> Types:
        """Return the types of an attribute or of a method's result, in the types of its receiver if these are known."""
        if self.imports_whole(file, primary.of):
            return self._declared(primary.word, frozenset(("",))) or _OF_ELSEWHERE
        of = self.of_expression(file, line, primary.of, depth + 1)
        names = frozenset().union(*(self.above(name) for name in of.names)) if of.names else None
        declared = self._declared(primary.word, names)
        if declared is not None and (declared.names or names):
            return declared
        if of.is_whole:
            return _OF_ELSEWHERE
        return self._set_in(file, primary.word)

    def _find_set(self, file: int, word: str) -> Types:
        """Return the types that a file sets an attribute to."""
        if self._nested == _DEEPEST:
            return NOTHING
        self._nested += 1
        bindings = member_bindings(self._lines_of(file).texts, word, self._bundle.directory.langs[file])
        own = [self._of_binding(file, one, 0) for one in bindings[:_MOST_BINDINGS]]
        self._nested -= 1
        found = _together(own) if own else NOTHING
        return found._replace(is_whole=found.is_whole and len(bindings) <= _MOST_BINDINGS)

    def _of_calling(self, types: Types) -> Types:
        """Return what calling an object of a type returns."""
        names = frozenset().union(*(self.above(name) for name in types.names))
        return (self._declared("__call__", names) if names else None) or NOTHING

    def _find_declared(self, word: str, owners: frozenset[str] | None) -> Types | None:
        """Return the types that definitions of a name declare: what functions return, what attributes are.

        Args:
            word: The name.
            owners: Names of the types whose members count, "" for what is no member; None for all.

        Returns:
            Types; None where there is no such definition.
        """
        found = [one for one in self._definitions(word) if one.kind in _TYPED]
        if owners is not None:
            found = [one for one in found if owner_of(one).rpartition(".")[2] in owners]
        if not found:
            return None
        return _together([self._of_definition(one) for one in found])

    def _of_definition(self, one: NamedDefinition) -> Types:
        """Return the types that one definition declares, or, of an attribute, that its file sets it to."""
        declared = _of_type(_beside(one.name, self._signature(one)))
        if declared.names or one.kind not in _SET:
            return declared
        return self._set_in(one.file, one.name)

    @property
    def is_settled(self) -> bool:
        """True where all signatures that were asked for have been read."""
        return not self._wanted

    def read_wanted(self) -> bool:
        """Read all signatures that were asked for; False where there is nothing more to read."""
        if self.is_settled or len(self._signatures) > _MOST_SIGNATURES:
            return False
        for _ in range(_HIGHEST):  # types with those that they extend
            if not self._wanted:
                break
            self._signatures |= dict.fromkeys(self._wanted, "") | self._bundle.symbols.signatures(self._wanted)
            types = [one for one in self._wanted.values() if one.kind in TYPE_LIKE]
            bases = frozenset().union(*(_extended(one.name, self._signatures[one.symbol_id]) for one in types))
            above = [one for base in bases for one in self._definitions(base) if one.kind in TYPE_LIKE]
            self._wanted = {one.symbol_id: one for one in above if one.symbol_id not in self._signatures}
        self._wanted.clear()
        self._doubtful.clear()
        return True

    def _once(self, find: Callable[..., ValueT], *key: Any) -> ValueT:
        """Return what a method finds; without definitions that are yet to be read only for now."""
        key = (find.__name__, *key)
        if key in self._known:
            return self._known[key]
        if key in self._doubtful:
            self.misses += 1
            return self._doubtful[key]
        before = self.misses
        found = find(*key[1:])
        (self._known if self.misses == before else self._doubtful)[key] = found
        return found

    def bases(self, name: str) -> frozenset[str]:
        """Return the names of the types that a type extends."""
        return self._once(self._find_bases, name)

    def above(self, name: str) -> dict[str, int]:
        """Return the types that a type is or extends, by name, with the steps from it."""
        return self._once(self._find_above, name)

    def _declared(self, word: str, owners: frozenset[str] | None = None) -> Types | None:
        return self._once(self._find_declared, word, owners)

    def _set_in(self, file: int, word: str) -> Types:
        return self._once(self._find_set, file, word)

    def _definitions(self, name: str) -> list[NamedDefinition]:
        if (found := self._named.get(name)) is None:
            found = self._named[name] = self._bundle.symbols.with_name(name, _MOST_OF_NAME, self._files)
        return found

    def _signature(self, one: NamedDefinition) -> str:
        if (found := self._signatures.get(one.symbol_id)) is None:
            self._wanted[one.symbol_id] = one
            self.misses += 1
        return found or ""

    def _find_binding(self, file: int, line: int, word: str) -> Binding | None:
        return bindings_above(self._lines_of(file), line, word, self._bundle.directory.langs[file])


def owner_of(row: SymbolRow | NamedDefinition) -> str:
    """Return the qualified name of what a definition is a member of; "" for one of a file."""
    return row.qualified_name.rpartition(".")[0]


def _extended(name: str, signature: str) -> frozenset[str]:
    """Return the names of types in the head of a type."""
    return frozenset(_WORD.findall(signature.partition(name)[2])) - _HEADS


def _together(several: Iterable[Types]) -> Types:
    known = list(several)
    return Types(frozenset().union(*(one.names for one in known)), all(one.is_whole for one in known))


def _of_type(text: str) -> Types:
    """Return the types that the text of a type names."""
    names = (name for name in _DOTTED.findall(text) if not _VARIABLE.fullmatch(name))
    known = frozenset(name.rpartition(".")[2] for name in names) - _TRANSPARENT - _UNKNOWN
    return Types(known, bool(known))


def _beside(name: str, signature: str) -> str:
    """Return what a signature says beside the name and the parameters: the type.

    It stands behind the name, or before it in languages such as Java.
    """
    before, _, after = signature.partition(name)
    if "->" in after:
        behind = after[after.rfind("->") + 2 :]
    elif after.startswith("("):
        behind = _behind_parameters(after)
    else:
        behind = after.partition("=")[0]
    return " ".join([*(word for word in _WORD.findall(before) if word not in _HEADS), behind])


def _behind_parameters(text: str) -> str:
    depth = 0
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return text[at + 1 :]
    return ""
