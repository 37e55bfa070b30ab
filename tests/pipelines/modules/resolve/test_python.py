"""Resolved imports of installed packages are those that importlib finds."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator
from functools import cache
from importlib.machinery import FileFinder, SourceFileLoader
from importlib.util import find_spec, resolve_name
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codequarry.pipelines.modules.resolve.families import Repository
from codequarry.pipelines.modules.resolve.python import PythonModules
from codequarry.pipelines.syntax.facts.table import SourceModule
from codequarry.schemas.records import Import, ModuleFacts
from tests.pipelines.conftest import MakeSettings
from tests.pipelines.modules.test_stage import described


class Oracle:
    """What importlib says of the modules below a folder; nothing is imported."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.origin = cache(self._origin)

    def _origin(self, name: str) -> Path | None:
        """The file of a dotted name."""
        place, origin = str(self.root), None
        for part in name.split("."):
            spec = FileFinder(place, (SourceFileLoader, [".py"])).find_spec(part)
            if spec is None:
                return None
            origin = spec.origin
            place = next(iter(spec.submodule_search_locations or ["/nowhere"]))
        return Path(origin) if origin else None

    def imported(self, file: Path, name: str = "") -> Iterator[Path]:
        """Files that a file imports; with a name, those from which it has that name."""
        parts = list(file.relative_to(self.root).with_suffix("").parts)
        package = ".".join(parts[:-1])
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import) and not name:
                yield from filter(None, (self.origin(alias.name) for alias in node.names))
            elif isinstance(node, ast.ImportFrom):
                written = "." * node.level + (node.module or "")
                try:
                    base = resolve_name(written, package)
                except ImportError:
                    continue
                for alias in node.names:
                    if alias.name == "*" and name:
                        star = self.origin(base)
                        if star and name in self.public(star):
                            yield star
                    elif not name or name == (alias.asname or alias.name):
                        yield from self.of_name(base, alias.name)

    def of_name(self, base: str, name: str) -> Iterator[Path]:
        """``from base import name``."""
        inner = self.origin(f"{base}.{name}") if name != "*" else None
        holder = self.origin(base)
        if inner is not None:
            yield inner
        elif holder is not None:
            yield holder
            if holder.name == "__init__.py" and name != "*":
                yield from self.imported(holder, name)

    @staticmethod
    def public(file: Path) -> set[str]:
        """Names of the classes and functions of a file."""
        body = ast.parse(file.read_bytes()).body
        named = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        return {node.name for node in body if isinstance(node, named) and not node.name.startswith("_")}


@pytest.mark.slow
@pytest.mark.parametrize("package", ["rich", "typer", "fastmcp"])
def test_resolved_imports_are_those_importlib_finds(package: str, tmp_path: Path, make_settings: MakeSettings) -> None:
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None
    root = tmp_path / "tree"
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "_vendor")
    shutil.copytree(Path(spec.origin).parent, root / package, ignore=ignored)
    rows, _ = described(root, make_settings)
    oracle = Oracle(root)
    python = {path: row for path, row in rows.items() if row["lang"] == "python"}
    assert len(python) > 10
    for path, row in python.items():
        found = {file.relative_to(root).as_posix() for file in oracle.imported(root / path)}
        assert set(row["resolved"]) == (found & python.keys()) - {path}, path
        assert row["module"] == path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    assert sum(len(row["resolved"]) for row in python.values()) > len(python)


class LooksAtAllImports(PythonModules):
    """Without the knowledge which imports can tell no further root."""

    def _learn_namespace_roots(self) -> None:
        for module in self._modules.values():
            for one in module.facts.imports:
                if not one.source.startswith("."):
                    self._roots_named_by(module, one)


WORDS = st.sampled_from(["a", "b", "c", "__init__", "src", "a.b"])
DOTTED = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(".".join)


@st.composite
def python_files(draw: st.DrawFn) -> SourceModule:
    path = "/".join(draw(st.lists(WORDS, min_size=1, max_size=4))) + ".py"
    names = st.lists(st.tuples(st.sampled_from("abc*"), st.just("x")), max_size=2).map(tuple)
    imports = tuple(draw(st.lists(st.builds(Import, DOTTED | DOTTED.map(".".__add__), names), max_size=4)))
    facts = ModuleFacts("", "", imports, (), (), 0, 0, 0, entry_point=False, only_imports=False)
    return SourceModule(path, "python", 1, 0, facts)


@settings(deadline=None, max_examples=300)
@given(st.lists(python_files(), max_size=12))
def test_imports_that_are_skipped_would_have_told_nothing(found: list[SourceModule]) -> None:
    by_path = {module.path: module for module in found}
    repository = Repository(by_path, frozenset(by_path), dict, lambda _: frozenset())
    one, other = PythonModules(repository), LooksAtAllImports(repository)
    for module in by_path.values():
        assert one.name(module) == other.name(module)
    assert one._namespace_roots == other._namespace_roots
