"""A SCIP indexer of small Python packages: module-level names, methods, bases, imports, and the library's os."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.pipelines.scip.scip_writer import document, information, metadata, occurrence

PACKAGE = "scip-test python app 1"
IMPLEMENTS = 3
"""Number of the field is_implementation of a relationship."""
OS = "scip-test python python-stdlib 3 os/__init__:"
Names = dict[str, str]
"""Symbols by name."""


def write_index(file: Path, folder: Path) -> None:
    """Index the Python files of a folder."""
    texts = {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    modules = {path.removesuffix(".py").replace("/", "."): path for path in trees}
    defined = {path: dict(_defined(path, tree)) for path, tree in trees.items()}
    file.write_bytes(metadata() + b"".join(_document(path, trees[path], modules, defined) for path in trees))


def _document(path: str, tree: ast.Module, modules: Mapping[str, str], defined: Mapping[str, Names]) -> bytes:
    bases = {
        node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    own = defined[path]
    symbols = [
        information(symbol, relationships=[(own[base], (IMPLEMENTS,)) for base in bases.get(name, ()) if base in own])
        for name, symbol in own.items()
    ]
    return document(path, *sorted(set(_occurrences(path, tree, modules, defined))), symbols=symbols)


def _defined(path: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names that a module defines, methods behind the name of their class, and their symbols."""
    module = f"{PACKAGE} `{path.removesuffix('.py').replace('/', '.')}`"
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, f"{module}/{node.name}()."
        elif isinstance(node, ast.ClassDef):
            yield node.name, f"{module}/{node.name}#"
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}", f"{module}/{node.name}#{inner.name}()."


def _occurrences(
    path: str, tree: ast.Module, modules: Mapping[str, str], defined: Mapping[str, Names]
) -> Iterator[bytes]:
    own, known = defined[path], dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            there = defined[modules[node.module]]
            for alias in node.names:
                if alias.name in there:
                    known[alias.name] = there[alias.name]
                    yield _place(there[alias.name], alias, alias.name, 0, 2)
        elif isinstance(node, ast.Import):
            yield from (_place(OS, alias, "os", 0, 2) for alias in node.names if alias.name == "os")
    known |= own
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield _definition(own[node.name], node)
            if isinstance(node, ast.ClassDef):
                yield from _methods(node, own)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in known:
            yield _place(known[node.id], node, node.id)


def _methods(node: ast.ClassDef, own: Names) -> Iterator[bytes]:
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef):
            yield _definition(own[f"{node.name}.{inner.name}"], inner)
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "self":
            symbol = own.get(f"{node.name}.{inner.attr}")
            if symbol:
                yield _place(symbol, inner, inner.attr, len("self."))


def _definition(symbol: str, node: ast.FunctionDef | ast.ClassDef) -> bytes:
    return _place(symbol, node, node.name, len("class " if isinstance(node, ast.ClassDef) else "def "), 1)


def _place(symbol: str, node: ast.AST, name: str, before: int = 0, roles: int = 0) -> bytes:
    column = node.col_offset + before  # pyright: ignore[reportAttributeAccessIssue]
    return occurrence(symbol, [node.lineno - 1, column, column + len(name)], roles)  # pyright: ignore[reportAttributeAccessIssue]
