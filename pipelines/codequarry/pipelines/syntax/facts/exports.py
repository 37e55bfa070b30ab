"""Names that a file offers to others, and detection of programs, by the rules of each language."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import accumulate

from codequarry.schemas.records import AstNode

_HIDDEN = re.compile(r"\b(?:private|fileprivate|internal|protected)\b")
_STATIC = re.compile(r"\bstatic\b")
_PUBLIC = re.compile(r"\bpublic\b")
_TYPES = frozenset({"class", "interface", "struct", "enum", "trait", "object", "module", "type", "constant"})
_NAMESPACES: dict[str, frozenset[str]] = {
    "cpp": frozenset({"namespace"}),
    "csharp": frozenset({"namespace"}),
    "php": frozenset({"namespace"}),
    "ruby": frozenset({"module"}),
}
_DECLARED = frozenset({"javascript", "typescript", "tsx", "lua"})
"""Languages whose exports the query captures."""
_BY_NAME = frozenset({"java", "kotlin", "scala", "csharp", "php"})
"""Languages whose imports name definitions by package, wherever the file is."""

_PRIVATE = ("defp ", "defmacrop ", "defguardp ", "@typep ")

_OFFERS: dict[str, Callable[[AstNode], bool]] = {
    "python": lambda node: not node.name.startswith("_"),
    "go": lambda node: node.name[:1].isupper(),
    "rust": lambda node: node.signature.startswith("pub "),
    "java": lambda node: bool(_PUBLIC.search(_before_name(node))),
    "csharp": lambda node: node.kind in _TYPES and bool(_PUBLIC.search(_before_name(node))),
    "c": lambda node: not _STATIC.search(_before_name(node)),
    "cpp": lambda node: node.kind != "namespace" and not _STATIC.search(_before_name(node)),
    "kotlin": lambda node: not _HIDDEN.search(_before_name(node)),
    "scala": lambda node: not _HIDDEN.search(_before_name(node)),
    "swift": lambda node: not _HIDDEN.search(_before_name(node)),
    "ruby": lambda node: node.kind in _TYPES,
    "elixir": lambda node: node.kind not in ("constant", "struct") and not node.signature.startswith(_PRIVATE),
    "zig": lambda node: node.signature.startswith(("pub ", "export ")),
    "php": lambda node: node.kind != "namespace",
}
_PROGRAMS: dict[str, Callable[[AstNode], bool]] = {
    "rust": lambda node: not node.parent and node.name == "main",
    "c": lambda node: not node.parent and node.name == "main",
    "cpp": lambda node: not node.parent and node.name == "main",
    "kotlin": lambda node: not node.parent and node.name == "main",
    "java": lambda node: node.name == "main" and bool(_STATIC.search(_before_name(node))),
    "csharp": lambda node: node.name == "Main" and bool(_STATIC.search(_before_name(node))),
    "scala": lambda node: node.name == "main" and "Array[String]" in node.signature,
    "go": lambda node: not node.parent and node.name == "main",
    "haskell": lambda node: not node.parent and node.name == "main",
    "zig": lambda node: not node.parent and node.name == "main",
}
_CALLABLE = frozenset({"function", "method"})


def offered(
    language: str, package: str, captured: list[str], lists_names: bool, nodes: tuple[AstNode, ...]
) -> Iterable[str]:
    """Return names that others can import, in the order of the file.

    Args:
        language: Name of the language.
        package: Package that the file declares; "" for none.
        captured: Names that the file itself declares as exports.
        lists_names: True when those are all.
        nodes: Definitions of the file.

    Returns:
        Exported names.
    """
    if language in _DECLARED or lists_names:
        return captured
    offers = _OFFERS.get(language, lambda _node: True)
    inner = _top_level(language, package, nodes)
    return [node.name for node in inner if offers(node)]


def qualified(language: str, package: str, nodes: tuple[AstNode, ...]) -> tuple[str, ...]:
    """Return the names by which imports of other files reach the definitions at the top of a file.

    Empty for languages whose imports name files.
    """
    if language == "haskell":
        return (package,) if package else ()
    if language == "elixir":
        return tuple(node.qualified_name for node in nodes if node.kind in ("module", "interface"))
    if language not in _BY_NAME:
        return ()
    # Namespaces of C# and PHP are definitions, and already part of the names within.
    prefix = f"{package}." if package and language not in _NAMESPACES else ""
    inner = (node for node in _top_level(language, package, nodes) if node.kind != "namespace")
    # A function of Kotlin is imported by its name alone, whatever type it extends.
    names = (node.name if language == "kotlin" else node.qualified_name for node in inner)
    return tuple(dict.fromkeys(prefix + name for name in names))


def is_program(language: str, package: str, nodes: tuple[AstNode, ...], data: bytes) -> bool:
    """Return whether a file can be run: it has the main function of its language, or a ``#!`` line."""
    if data.startswith(b"#!") and not data.startswith(b"#!["):
        return True
    if language == "go" and package != "main":
        return False
    starts = _PROGRAMS.get(language)
    return starts is not None and any(node.kind in _CALLABLE and starts(node) for node in nodes)


def _top_level(language: str, package: str, nodes: tuple[AstNode, ...]) -> list[AstNode]:
    """Return definitions that lie in no other but namespaces."""
    if language == "kotlin":
        ends = accumulate((node.end_byte for node in nodes), max, initial=0)
        return [node for node, end in zip(nodes, ends, strict=False) if node.start_byte >= end]
    containers = _NAMESPACES.get(language, frozenset())
    open_names = {"", package, *(node.qualified_name for node in nodes if node.kind in containers)}
    return [
        node for node in nodes if node.parent in open_names or (language == "elixir" and node.qualified_name == package)
    ]


def _before_name(node: AstNode) -> str:
    """Return the modifiers of a signature: the text before the name, which must be a word of its own."""
    match = re.search(rf"(?<!\w){re.escape(node.name)}(?!\w)", node.signature)
    return node.signature[: match.start()] if match else node.signature
