"""Languages whose imports name files by path: C and C++, Ruby, Lua, Zig, Bash; and those without imports of files."""

from __future__ import annotations

import re
from collections.abc import Iterable

from codequarry.pipelines.module_families import (
    ModuleName,
    Repository,
    as_written,
    dotted,
    join,
    nearest,
    parents,
    without_suffix,
)
from codequarry.pipelines.module_table import SourceModule
from codequarry.schemas.records import Import

_LUA_ROOTS = ("lua", "src", "lib")
_EXPANDED = re.compile(r"""^.*[)}]/|^\$\w+/""")


class PathModules:
    """Files that are called by their path; their imports name none, unless a language below says how."""

    def __init__(self, repository: Repository, *languages: str) -> None:
        self._modules = repository.of(*languages)
        self._by_name: dict[str, list[str]] = {}
        for path in self._modules:
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)

    def name(self, module: SourceModule) -> ModuleName:
        """The dotted path."""
        name = dotted(without_suffix(module.path))
        return ModuleName(name, name.rpartition(".")[0])

    def entries(self, module: SourceModule) -> Iterable[tuple[str, Import]]:
        """One for each path."""
        return as_written(module)

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """Nothing: targets and schemas are no files."""
        del module, imported
        return set()

    def _first(self, folders: Iterable[str], path: str) -> set[str]:
        """The file that a relative path names from the first of some folders."""
        places = (join(folder, path) for folder in folders)
        return {next((place for place in places if place and place in self._modules), "")} - {""}

    def _ending(self, path: str) -> set[str]:
        """Files whose path ends with whole parts of another."""
        tail = f"/{path}"
        return {each for each in self._by_name.get(path.rpartition("/")[2], ()) if f"/{each}".endswith(tail)}


class CModules(PathModules):
    """C and C++: ``#include``."""

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """The header beside the file, else from the root, else the only one that ends so.

        With angle brackets only headers below an ``include`` folder count: most such headers are the system's.
        """
        path = imported.source.strip("<>").removeprefix("./")
        if imported.source.startswith("<"):
            return _single(nearest(self._ending(f"include/{path}"), module.path))
        return self._first((parents(module.path)[0], ""), path) or _single(nearest(self._ending(path), module.path))


class RubyModules(PathModules):
    """Ruby: ``require`` from a ``lib`` folder, ``require_relative`` from the file."""

    def name(self, module: SourceModule) -> ModuleName:
        """The dotted path below the last ``lib`` folder."""
        whole = dotted(without_suffix(module.path))
        name = f".{whole}".rpartition(".lib.")[2].removeprefix(".")
        return ModuleName(name, name.rpartition(".")[0])

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """The file, with or without its suffix."""
        path = imported.source if imported.source.endswith(".rb") else f"{imported.source}.rb"
        if path.startswith("."):
            return self._first(parents(module.path)[:1], path)
        roots = [f"{folder}/lib" if folder else "lib" for folder in parents(module.path)]
        return self._first([*roots, ""], path) or _single(self._ending(f"lib/{path}"))


class LuaModules(PathModules):
    """Lua: ``require`` with dots, from a source root."""

    def name(self, module: SourceModule) -> ModuleName:
        """The dotted path below the last source root; a folder's ``init.lua`` is the folder."""
        name = dotted(without_suffix(module.path))
        for root in _LUA_ROOTS:
            name = f".{name}".rpartition(f".{root}.")[2].removeprefix(".")
        if name.endswith(".init"):
            return ModuleName(name.removesuffix(".init"), name.removesuffix(".init").rpartition(".")[0])
        return ModuleName(name, name.rpartition(".")[0])

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """The file, or the ``init.lua`` of the folder: in a source root, else from the repository's root inwards."""
        path = imported.source.replace(".", "/")
        above = parents(module.path)
        roots = [join(folder, root) or "" for folder in above for root in _LUA_ROOTS]
        for folder in (*roots, *reversed(above)):
            if found := self._first([folder], f"{path}.lua") or self._first([folder], f"{path}/init.lua"):
                return found
        return _single(self._ending(f"{path}.lua") | self._ending(f"{path}/init.lua"))


class ZigModules(PathModules):
    """Zig: ``@import`` of a file; what build.zig gives a name to is no path."""

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """The file, from where the importing one lies."""
        return self._first(parents(module.path)[:1], imported.source) if imported.source.startswith(".") else set()


class ShellModules(PathModules):
    """Bash: ``source`` and ``.``; what is expanded at run time counts for nothing."""

    def resolve(self, module: SourceModule, imported: Import) -> set[str]:
        """The file from the script's folder or one above it, else the only one that ends so."""
        path = _EXPANDED.sub("", imported.source.strip("\"'")).removeprefix("./").strip("\"'")
        return self._first(parents(module.path), path) or _single(self._ending(path))


def _single(found: set[str]) -> set[str]:
    """A set of one; empty for more, which would be a guess."""
    return found if len(found) == 1 else set()
