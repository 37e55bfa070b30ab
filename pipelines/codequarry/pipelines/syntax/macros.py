"""Macros around declarations, blanked out so that the grammar sees the declarations themselves.

A grammar does not know what a macro does. ``cfg_net! { pub fn bind() {} }`` is a list of tokens to it, and ``class
FMT_API Format { … }`` a function. Here blanks take the place of what surrounds the declarations, so that every byte
keeps its place. The names of the macros are still references.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from codequarry.pipelines.syntax.parsing import parse_or_reason

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

    from codequarry.pipelines.syntax.grammars import Grammar

Range = tuple[int, int]
"""Bytes from the first to behind the last."""

_MOST_NESTED = 3
_RUST_CALL = re.compile(rb"^[ \t]*(?:[A-Za-z_]\w*::)*[a-z_]\w*![ \t]*\{", re.MULTILINE)
_RUST_REF = re.compile(rb"\bstatic( ref) ")
"""``lazy_static!`` writes what no Rust compiler would take."""
_RUST_BODIES = frozenset({"mod_item", "impl_item", "trait_item", "foreign_mod_item"})
_RUST_ITEMS = frozenset(
    "function_item function_signature_item struct_item enum_item union_item trait_item impl_item mod_item static_item "
    "const_item type_item macro_definition foreign_mod_item macro_invocation".split()
)
_C_ITEMS = frozenset(
    "function_definition declaration type_definition struct_specifier class_specifier enum_specifier "
    "union_specifier template_declaration namespace_definition".split()
)
_C_EXPORT = re.compile(
    rb"\b(?:class|struct|union)[ \t]+(([A-Z][A-Z0-9]*_[A-Z0-9_]*|[A-Z]{3,}[A-Z0-9]*)(?:\([^()\n]*\))?)[ \t]+"
    rb"(?=[A-Za-z_]\w*(?:::\w+)*(?:<[^<>\n]*>)?\s*(?:final\s*)?(?:\{|:(?!:)))"
)
_C_LINE = re.compile(
    rb"^[ \t]*([A-Z][A-Z0-9]*_[A-Z0-9_]*)[ \t]*(?=\r?$)|^([A-Z][A-Z0-9_]*)\([^(){};\n]*\)[ \t]*(?=\r?$)", re.MULTILINE
)
_C_CALL = re.compile(rb"^([A-Z][A-Z0-9_]*)\((?=\s*[A-Za-z_])", re.MULTILINE)
_C_BRACKET = re.compile(rb"[()]")
_NEAR_BYTES = 1_000
"""Distance from a line up to which the lines around it are looked for."""
_C_LONGEST = 1 << 16
"""Bytes of the longest call that is looked into."""
_C_CALLS = 200
"""Calls of a file that are looked into, or whose closing bracket is looked for."""


class Parsed(NamedTuple):
    """Syntax of a file."""

    tree: Tree | str
    """Syntax tree, or the reason for having none; see `parse_or_reason`."""
    macros: tuple[Range, ...]
    """Names of the macros that were blanked out, by start."""


def parse_unwrapped(grammar: Grammar, language: str, data: bytes) -> Parsed:
    """Parse a file with the macros around its declarations blanked out.

    Args:
        grammar: Grammar of the language.
        language: Name of the language.
        data: Bytes of the file.

    Returns:
        The tree, whose places are those of the file, and the names of the macros.
    """
    if language == "rust":
        return _parse_rust(grammar, data)
    if language in ("c", "cpp"):
        return _parse_c(grammar, data)
    return Parsed(parse_or_reason(grammar, data), ())


def _parse_rust(grammar: Grammar, data: bytes) -> Parsed:
    tree, names = parse_or_reason(grammar, data), list[Range]()
    if _RUST_CALL.search(data) is None:
        return Parsed(tree, ())
    masked = bytearray(data)
    for _ in range(_MOST_NESTED):
        if isinstance(tree, str):
            break
        before = len(names)
        for call in _rust_calls(tree.root_node):
            name, body = call.child_by_field_name("macro"), call.children[-1]
            if name is None or body.type != "token_tree" or masked[body.start_byte] != ord("{"):
                continue
            inner = slice(body.start_byte + 1, body.end_byte - 1)
            content = _RUST_REF.sub(lambda found: b"static" + b" " * 5, bytes(masked[inner]))
            if _declares(grammar, content, _RUST_ITEMS):
                masked[inner] = content
                _blank(masked, call.start_byte, inner.start)
                _blank(masked, inner.stop, call.end_byte)
                names.append((name.byte_range[0], name.byte_range[1]))
        if len(names) == before:
            break
        tree = parse_or_reason(grammar, bytes(masked))
    return Parsed(tree, tuple(sorted(names)))


def _rust_calls(root: Node) -> Iterator[Node]:
    """Yield the macro calls that stand where a declaration could."""
    pending = [root]
    while pending:
        for node in pending.pop().named_children:
            if node.type in _RUST_BODIES:
                if (body := node.child_by_field_name("body")) is not None:
                    pending.append(body)
            elif node.type == "expression_statement":
                yield from (inner for inner in node.named_children if inner.type == "macro_invocation")
            elif node.type == "macro_invocation":
                yield node


def _parse_c(grammar: Grammar, data: bytes) -> Parsed:
    masked, names = bytearray(data), list[Range]()
    for found in _C_EXPORT.finditer(data):
        _blank(masked, *found.span(1))
        names.append(found.span(2))
    for found in _C_LINE.finditer(data):
        if _stands_alone(masked, found.start(), found.end()):
            _blank(masked, *found.span())
            names.append(found.span(1 if found[1] else 2))
    looked_into = 0
    for found in islice(_C_CALL.finditer(bytes(masked)), _C_CALLS):
        if found.start() < looked_into:
            continue
        end = looked_into = _closing(masked, found.end())
        inner = bytes(masked[found.end() : end])
        if (b"{" in inner or b";" in inner) and _declares(grammar, inner, _C_ITEMS):
            _blank(masked, found.start(), found.end())
            _blank(masked, end, end + 1)
            names.append(found.span(1))
    tree = parse_or_reason(grammar, bytes(masked))
    if isinstance(tree, str):
        return Parsed(tree, ())
    return Parsed(tree, tuple(name for name in sorted(names) if not _is_text(tree, name)))


def _is_text(tree: Tree, place: Range) -> bool:
    """Tell whether a place lies in a comment or a string."""
    node = tree.root_node.descendant_for_byte_range(*place)
    return node is not None and ("comment" in node.type or "string" in node.type)


def _stands_alone(data: bytearray, start: int, end: int) -> bool:
    """Tell whether the lines around a line neither begin nor go on with a statement that it is part of.

    Args:
        data: The file, in which macros that stand alone above are blank.
        start: Start of the line.
        end: End of the line.

    Returns:
        True when the line is none of a statement's.
    """
    above = bytes(data[max(0, start - _NEAR_BYTES) : start]).rstrip().rpartition(b"\n")[2]
    below = bytes(data[end : end + _NEAR_BYTES]).lstrip()[:1]
    if above.endswith(b"\\"):
        return False
    code = above.partition(b"//")[0].strip()
    begins = not code or code.startswith(b"#") or code.endswith((b";", b"{", b"}", b":", b"*/"))
    return begins and (not below or below.isalnum() or below in b"_#/~[")


def _closing(data: bytearray, start: int) -> int:
    """Return the place of the bracket that closes a call, or `start` where it is too far away."""
    depth = 1
    for found in _C_BRACKET.finditer(data, start, min(len(data), start + _C_LONGEST)):
        depth += 1 if found[0] == b"(" else -1
        if not depth:
            return found.start()
    return start


def _declares(grammar: Grammar, content: bytes, items: frozenset[str]) -> bool:
    """Tell whether a text is a list of declarations."""
    tree = parse_or_reason(grammar, content)
    if isinstance(tree, str) or tree.root_node.has_error:
        return False
    return any(node.type in items for node in tree.root_node.named_children)


def _blank(data: bytearray, start: int, end: int) -> None:
    """Replace bytes with blanks; the ends of lines stay."""
    for place in range(start, end):
        if data[place] not in b"\r\n":
            data[place] = ord(" ")
