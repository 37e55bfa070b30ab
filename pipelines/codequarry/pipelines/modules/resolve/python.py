"""Python: packages, source roots, namespace packages, relative imports and re-exports of ``__init__``.

Roots are not configured: they are the folders above the outermost ``__init__``, and those from which absolute imports
name files (``schemas`` when ``import app.tables`` means ``schemas/app/tables.py``). A repository that is itself a
package gets the name that its files import it by.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from codequarry.pipelines.modules.resolve.families import (
    ModuleName,
    Repository,
    dotted,
    nearest,
    parents,
    with_origins,
    without_suffix,
)
from codequarry.pipelines.syntax.facts.table import SourceModule
from codequarry.schemas.records import Import

_SUFFIXES = (".py", ".pyi", ".pyw")
_INITS = ("__init__.py", "__init__.pyi")
_ROOTS = frozenset({"src", "lib", "python"})
"""Folders that hold modules without being part of their names."""


class PythonModules:
    """The Python files of a repository."""

    def __init__(self, repository: Repository) -> None:
        self._modules = repository.of("python")
        python = [path for path in repository.paths if path.endswith(_SUFFIXES)]
        self._files = set(python)
        self._packages = {path.rpartition("/")[0] for path in python if path.endswith(_INITS)}
        self._folders = {folder for path in python for folder in parents(path)} - {""}
        self._above = self._tops()
        self._found: dict[tuple[str, tuple[str, ...]], tuple[str, str] | None] = {}
        self._namespace_roots: set[str] = set()
        self._own_name = self._called()
        self._learn_namespace_roots()

    def name(self, module: SourceModule) -> ModuleName:
        """Return the dotted name from its source root; ``__init__`` gets the name of its package."""
        root = self._root(module.path)
        parts = dotted(without_suffix(module.path[len(root) :].strip("/"))).split(".")
        if self._own_name and self._in_whole_package(module.path):
            parts.insert(0, self._own_name)
        name = ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)
        return ModuleName(name, name.rpartition(".")[0])

    def entries(self, module: SourceModule) -> Iterable[tuple[str, Import]]:
        """Yield ``a.b`` for ``from a import b``; one entry for each name."""
        for one in module.facts.imports:
            if not one.names:
                yield one.source, one
            for there, here in one.names:
                separator = "" if one.source.endswith(".") else "."
                yield f"{one.source}{separator}{there}", Import(one.source, ((there, here),))

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """Return the imported module; for a name that an ``__init__`` re-exports, also the file that defines it."""
        found = self._direct(module, imported)
        barrels = {path for path in found if path.endswith(_INITS)}
        return with_origins(found, barrels, imported, self._direct, self._modules)

    def _direct(self, module: SourceModule, imported: Import) -> set[str]:
        names = [there for there, _ in imported.names]
        found = {self._submodule(module, imported.source, name) or self._module(module, imported.source)
                 for name in names or [""]}  # fmt: skip
        return {path for path in found if path in self._modules}

    def _submodule(self, module: SourceModule, source: str, name: str) -> str:
        if name in ("", "*"):
            return ""
        return self._module(module, source + ("" if source.endswith(".") else ".") + name)

    def _module(self, module: SourceModule, source: str) -> str:
        """Return the file of a dotted name, relative or absolute; "" for none."""
        name = source.lstrip(".")
        parts = tuple(name.split(".")) if name else ()
        if name == source:
            if not parts:
                return ""
            found = self._absolute(module.path.rpartition("/")[0], parts)
            return found[1] if found else ""
        above = parents(module.path)
        levels = len(source) - len(name)
        return self._file(above[levels - 1], parts) if levels <= len(above) else ""

    def _file(self, folder: str, parts: Sequence[str]) -> str:
        """Return the file that dotted parts below a folder name; "" for none."""
        path = "/".join(part for part in (folder, *parts) if part)
        if parts:
            for suffix in _SUFFIXES:
                if path + suffix in self._files and path not in self._packages:
                    return path + suffix
        inits = (f"{path}/{init}" if path else init for init in _INITS)
        return next((init for init in inits if init in self._files), "")

    def _absolute(self, folder: str, parts: tuple[str, ...]) -> tuple[str, str] | None:
        """Return (root, file) for an absolute import by a file of a folder; None when it is not in this repository."""
        key = (folder, parts)
        if key not in self._found:
            self._found[key] = self._search(folder, parts)
        return self._found[key]

    def _search(self, folder: str, parts: tuple[str, ...]) -> tuple[str, str] | None:
        if parts[0] == self._own_name:
            return ("", file) if (file := self._file("", parts[1:])) else None
        within: list[tuple[str, str]] = []
        beside: dict[str, str] = {}
        for root in self._above.get(parts[0], ()):
            file = self._file(root, parts)
            if not file:
                continue
            top = f"{root}/{parts[0]}" if root else parts[0]
            standard = parts[0] in sys.stdlib_module_names
            if standard and folder != root and not f"{folder}/".startswith(f"{top}/"):
                continue  # the standard library wins, except for scripts beside the module and within it
            if not root or f"{folder}/".startswith(f"{root}/"):
                within.append((root, file))
            elif top in self._folders:
                beside[file] = root
        if within:
            return max(within, key=lambda found: len(found[0]))
        close = nearest(beside, f"{folder}/_") if folder else set(beside)
        file = next(iter(close)) if len(close) == 1 else ""
        return (beside[file], file) if file else None

    def _called(self) -> str:
        """Return the name by which files of a repository that is a package import it: the most frequent first part."""
        if "" not in self._packages:
            return ""
        calls: Counter[str] = Counter()
        for module in self._modules.values():
            for one in module.facts.imports:
                first, *rest = one.source.split(".")
                if first and rest and self._file("", rest):
                    calls[first] += 1
        return min(calls, key=lambda first: (-calls[first], first), default="")

    def _in_whole_package(self, path: str) -> bool:
        return all(folder in self._packages for folder in parents(path))

    def _tops(self) -> dict[str, list[str]]:
        """Return the folders in which the first part of a dotted name may lie, by that part; packages are left out."""
        above: dict[str, set[str]] = {}
        for path in self._files | self._folders:
            folder, _, name = path.rpartition("/")
            if folder not in self._packages:
                above.setdefault(name.partition(".")[0], set()).add(folder)
        return {name: sorted(folders) for name, folders in above.items()}

    def _learn_namespace_roots(self) -> None:
        """Record the roots of imports through folders without ``__init__``."""
        unlearned = self._possible_namespace_roots()
        for module in self._modules.values():
            for one in module.facts.imports:
                # Once all roots of a first part are known, further imports of it tell nothing.
                if possible := unlearned.get(one.source.partition(".")[0]):
                    possible.difference_update(self._roots_named_by(module, one))

    def _possible_namespace_roots(self) -> dict[str, set[str]]:
        """Return the roots that an import may tell, by the first part of its name; the repository's top is none."""
        return {
            name: {root for root in above if root and self._is_namespace(root, name)}
            for name, above in self._above.items()
        }

    def _is_namespace(self, root: str, name: str) -> bool:
        """Return whether a folder of this name without ``__init__`` lies below a folder."""
        folder = f"{root}/{name}"
        return folder in self._folders and folder not in self._packages

    def _roots_named_by(self, module: SourceModule, imported: Import) -> set[str]:
        """Return the roots of an import through a folder without ``__init__``, and keep them."""
        folder = module.path.rpartition("/")[0]
        found: set[str] = set()
        for name in {there for there, _ in imported.names} | {""}:
            parts = (*imported.source.split("."), *([name] if name not in ("", "*") else []))
            place = self._absolute(folder, parts)
            if place and place[0] and len(parts) > 1 and f"{place[0]}/{parts[0]}" not in self._packages:
                found.add(place[0])
        self._namespace_roots |= found
        return found

    def _root(self, path: str) -> str:
        """Return the source root of a file, to which its name is relative."""
        root, in_package = "", False
        for folder in parents(path)[:-1]:
            last = folder.rpartition("/")[2]
            if folder in self._packages:
                root, in_package = folder.rpartition("/")[0], True
            elif folder in self._namespace_roots or last == "src" or (last in _ROOTS and not in_package):
                return folder
        return root
